const fs = require("fs");
const fd = fs.openSync("handle.txt", "w+");
console.log(fs.writeSync(fd, "hello world"), fs.writeSync(fd, Buffer.from("HE"), 0, 2, 0));
const buffer = Buffer.alloc(5);
console.log(fs.readSync(fd, buffer, 0, 5, 6), buffer.toString(), fs.readSync(fd, buffer, 1, 3, 0), buffer.toString());
fs.ftruncateSync(fd, 5); console.log(fs.fstatSync(fd).size); fs.closeSync(fd);
console.log(fs.readFileSync("handle.txt", "latin1"), fs.readFileSync("handle.txt").toString("base64"));
fs.truncateSync("handle.txt", 2); console.log(fs.readFileSync("handle.txt", "utf8"));
try { fs.closeSync(999); } catch (error) { console.log(error.code); }
fs.utimesSync("handle.txt", 1000, 2000); console.log(fs.statSync("handle.txt").mtimeMs);
fs.cpSync("data", "copied", { recursive: true }); console.log(fs.readdirSync("copied").sort());
const { O_RDWR, O_WRONLY, O_CREAT, O_TRUNC, O_APPEND } = fs.constants;
for (const flags of [O_RDWR | O_CREAT, O_WRONLY | O_CREAT, O_RDWR | O_APPEND, O_WRONLY | O_CREAT | O_TRUNC, "a+", "r+"]) {
  fs.writeFileSync("flags.txt", "0123456789");
  const fd = fs.openSync("flags.txt", flags);
  fs.writeSync(fd, "abcd"); fs.closeSync(fd);
  console.log(flags, fs.readFileSync("flags.txt", "utf8"));
}
