const { words, form } = require("tiny-words");
const shout = require("tiny-words/shout");
console.log(words(" one two  three "), form, shout("hey"));
import("tiny-words").then(({ form }) => console.log(form));
try { require("tiny-words/lib/hidden"); } catch (error) { console.log(error instanceof Error); }
