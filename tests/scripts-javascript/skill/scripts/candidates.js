// Imports modules of the skill that have a second candidate. Before that, it moves the files and folders of its
// arguments away.
const fs = require("fs");
for (const path of process.argv.slice(2)) {
  fs.renameSync(path, "moved");
}
for (const name of ["./lib/both", "./lib/either", "near", "tiny-words", "tiny-words/lib/index.cjs"]) {
  try {
    console.log(name, require(name).candidate ?? "loaded");
  } catch (error) {
    console.log(name, error.code, error.message);
  }
}
