const fs = require("node:fs");
const path = require("node:path");
fs.mkdirSync("out/a/b", { recursive: true });
fs.writeFileSync("out/a/one.txt", "one\n");
fs.appendFileSync("out/a/one.txt", "two\n");
fs.writeFileSync("out/a/b/bytes.bin", Buffer.from([0, 1, 2, 255]));
fs.copyFileSync("out/a/one.txt", "out/copy.txt");
fs.renameSync("out/copy.txt", "out/renamed.txt");
fs.writeFileSync("out/gone.txt", "x"); fs.unlinkSync("out/gone.txt");
console.log(fs.readdirSync("out", { recursive: true }).sort());
console.log(fs.readdirSync("out/a", { withFileTypes: true }).map((e) => [e.name, e.isDirectory(), e.isFile()]));
const stat = fs.statSync("out/a/one.txt");
console.log(stat.size, stat.isFile(), stat.isDirectory(), stat.mtime instanceof Date);
console.log(fs.existsSync("out/a"), fs.existsSync("nope"), fs.statSync("nope", { throwIfNoEntry: false }));
for (const act of [() => fs.readFileSync("nope.txt"), () => fs.mkdirSync("out"), () => fs.rmdirSync("out"), () => fs.readdirSync("nope"), () => fs.readFileSync("out"), () => fs.unlinkSync("nope"), () => fs.renameSync("nope", "x"), () => fs.openSync("out/a/one.txt", "wx"), () => fs.readFileSync(7.5 > 1 ? null : 0), () => fs.writeFileSync("nope/x", ""), () => fs.rmSync("nope"), () => fs.accessSync("nope")]) {
  try { act(); console.log("no error"); } catch (error) { console.log(error.code, error.syscall, error.errno, error.message); }
}
fs.rmSync("out/a/b", { recursive: true });
fs.rmSync("nope", { force: true });
console.log(fs.readFileSync("out/a/one.txt", { encoding: "utf-8" }).split("\n"), path.resolve("x").endsWith("/x"));
console.log(fs.realpathSync("scripts/../data/page.md") === path.resolve("data/page.md"));
