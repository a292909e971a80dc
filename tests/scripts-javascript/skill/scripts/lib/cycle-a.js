exports.name = "a"; const b = require("./cycle-b"); exports.seen = b.name; exports.done = true;
