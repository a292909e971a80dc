let data = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => { data += chunk; });
process.stdin.on("end", () => {
  const list = JSON.parse(data);
  console.log(list.map(({ name, born }) => `${name}: ${born}`).join("\n"));
});
