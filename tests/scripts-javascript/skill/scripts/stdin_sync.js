const fs = require("fs");
const text = fs.readFileSync(0, "utf8");
console.log(text.split(/\s+/).filter(Boolean).length, "words", Buffer.byteLength(text), "bytes");
process.stdout.write("no newline");
process.stderr.write("to stderr\n");
