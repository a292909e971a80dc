// Tries to run a file that the call wrote, and reads it.
const fs = require("fs");
const path = process.argv[2];
console.log("read", fs.readFileSync(path, "utf8").length);
fs.writeFileSync("scripts/made.js", "console.log('from the call')");
for (const name of [fs.realpathSync(path), "./made", "./made.js", "#made"]) {
  try {
    require(name);
  } catch (error) {
    console.log("refused", error.message);
  }
}
const address = require("url").pathToFileURL("scripts/made.js").href;
for (const name of ["./made.js", address, "#made"]) {
  import(name).catch((error) => console.log("refused to import", error.message));
}
