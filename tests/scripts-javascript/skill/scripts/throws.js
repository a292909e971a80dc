const fs = require("fs");
console.log("first");
process.on("exit", (code) => console.log("code", code));
function inner() { throw new TypeError("broken on purpose"); }
setTimeout(() => console.log("never"), 10);
inner();
