// Uses empty paths, and reads very many lines.
const fs = require("fs");
const readline = require("readline");

const caught = (run) => {
  try {
    return run();
  } catch (error) {
    return error.code + " " + error.message;
  }
};
fs.writeFileSync("one.txt", "1");
console.log(fs.existsSync(""), fs.existsSync("one.txt"), fs.existsSync("."));
for (const [from, to] of [["", "two.txt"], ["one.txt", ""]]) {
  console.log(caught(() => fs.renameSync(from, to)));
  console.log(caught(() => fs.copyFileSync(from, to)));
}
for (const name of ["statSync", "readFileSync", "readdirSync", "mkdirSync", "unlinkSync", "rmdirSync", "accessSync", "openSync"]) {
  console.log(name, caught(() => fs[name]("")));
}
console.log(fs.statSync("", { throwIfNoEntry: false }), fs.readdirSync(".").includes("one.txt"), fs.existsSync("two.txt"));
fs.exists("", (exists) => console.log("exists", exists));

fs.writeFileSync("lines.txt", "\n".repeat(100_000) + "last\r\nline");
let count = 0;
const lines = readline.createInterface({ input: fs.createReadStream("lines.txt") });
lines.on("line", (line) => {
  count += 1;
  if (line) {
    console.log(count, line);
  }
  if (count === 70_000) {
    lines.pause();
    setTimeout(() => lines.resume(), 5);
  }
});
lines.on("close", async () => {
  let count = 0;
  for await (const line of readline.createInterface({ input: fs.createReadStream("lines.txt") })) {
    count += line.length + 1;
  }
  console.log(count);
});
