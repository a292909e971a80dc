const code = Number(process.argv[2]);
process.on("exit", (c) => console.log("leaving with", c, process.exitCode));
try {
  console.log("before");
  if (code === 9) process.exitCode = 9;
  else process.exit(code);
  console.log("after");
} catch { console.log("caught"); } finally { if (code === 9) console.log("finally"); }
