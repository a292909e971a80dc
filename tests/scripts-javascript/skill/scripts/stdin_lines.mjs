import readline from "node:readline";
const rl = readline.createInterface({ input: process.stdin, crlfDelay: Infinity });
let n = 0;
for await (const line of rl) console.log(++n, JSON.stringify(line));
console.log("lines:", n);
