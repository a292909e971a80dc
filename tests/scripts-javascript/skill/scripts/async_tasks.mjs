import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import fs from "node:fs";
const task = async (name, ms) => { await sleep(ms); return name; };
console.log(await Promise.all([task("a", 15), task("b", 1)]), await Promise.race([task("slow", 30), task("fast", 2)]));
console.log(await Promise.allSettled([task("x", 1), Promise.reject(new Error("no"))]).then((all) => all.map((one) => one.status)));
console.log((await promisify(fs.readFile)("data/page.md", "utf8")).length);
async function* numbers() { for (let i = 0; i < 3; i++) { await sleep(1); yield i; } }
for await (const n of numbers()) console.log(n);
console.log(await Promise.any([Promise.reject(1), task("any", 1)]), await sleep(1, "value"));
