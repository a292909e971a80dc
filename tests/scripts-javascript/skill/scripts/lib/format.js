"use strict";
const path = require("path");
let calls = 0;
exports.title = (text) => {
  calls += 1;
  return text.replace(/\b\w/g, (letter) => letter.toUpperCase());
};
exports.calls = () => calls;
exports.here = path.basename(__filename) + " in " + path.basename(__dirname);
