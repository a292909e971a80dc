const a = require("./cycle-a"); exports.name = "b"; exports.partial = { ...a };
