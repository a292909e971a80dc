const format = require("./lib/format");
const again = require("./lib/format.js");
console.log(format === again, format.title("a quick fox"), again.calls(), format.here);
console.log(require("./lib/folder"), require("../data/config.json").name);
console.log(require("./lib/cycle-a"), require("./lib/cycle-b"));
console.log(require("path").basename(require.resolve("./lib/format")), Object.keys(require.cache).length, module.children.length);
try { require("./lib/none"); } catch (error) { console.log(error.code, error.message.split("\n")[0]); }
try { require("no-such-package"); } catch (error) { console.log(error.code, error.message.split("\n")[0]); }
import("./lib/shapes.mjs").then(({ default: describe, Square }) => console.log(describe(new Square(3))));
