// Tries to run a file that the call wrote, and reads it.
const fs = require("fs");
const path = process.argv[2];
console.log("read", fs.readFileSync(path, "utf8").length);
fs.writeFileSync("scripts/made.js", "console.log('from the call')");
for (const name of [fs.realpathSync(path), "./made", "./made.js"]) {
  try {
    require(name);
  } catch (error) {
    console.log("refused", error.message);
  }
}
import("./made.js").catch((error) => console.log("refused", error.message));
