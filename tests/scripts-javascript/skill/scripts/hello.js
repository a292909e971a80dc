#!/usr/bin/env node
console.log("Hello, %s! You are %d.", process.argv[2] ?? "world", 7);
console.log("args:", process.argv.slice(2));
console.log(require.main === module, typeof exports, this === module.exports);
