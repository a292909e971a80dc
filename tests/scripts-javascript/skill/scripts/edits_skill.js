const fs = require("fs");
const config = JSON.parse(fs.readFileSync("data/config.json", "utf8"));
config.name = "changed"; delete config.n;
fs.writeFileSync("data/config.json", JSON.stringify(config, null, 2));
fs.rmSync("data/letter.tmpl"); fs.renameSync("data/app.log", "data/old.log"); fs.mkdirSync("empty");
fs.writeFileSync("/tmp/scratch-of-test", "not reported"); fs.unlinkSync("/tmp/scratch-of-test");
console.log(fs.readdirSync("data").sort(), JSON.parse(fs.readFileSync("data/config.json")).name);
