// Uses modules of the skill in all forms.
const format = require("./lib/format");
const { words } = require("tiny-words");
console.log("honest", format.title("a fox"), words("one two"), require("./lib/folder"), require("fs").existsSync("SKILL.md"));
import("./lib/shapes.mjs").then(({ default: describe, Square }) => console.log(describe(new Square(3))));
