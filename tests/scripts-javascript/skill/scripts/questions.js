const rl = require("readline").createInterface({ input: process.stdin, output: process.stdout });
rl.question("Name? ", (name) => {
  rl.question("Age? ", (age) => { console.log(`\n${name} is ${age}`); rl.close(); });
});
rl.on("close", () => console.log("closed"));
