const util = require("util");
console.log(util.inspect({ a: { b: { c: { d: {} } } } }, { depth: 0 }), util.inspect({ a: 1, b: [1, 2] }, { compact: false }), util.inspect("s"), util.format("%s=%d", "x", 5, "more"));
console.log(util.isDeepStrictEqual({ a: [1] }, { a: [1] }), util.isDeepStrictEqual(1, "1"), util.types.isRegExp(/a/), util.types.isDate(1), util.types.isPromise(Promise.resolve()));
console.log(util.inspect(new Map([["k", { v: [1, 2, 3] }]]), { breakLength: 20 }), util.stripVTControlCharacters("\u001b[31mred\u001b[0m"));
class Money { constructor(n) { this.n = n; } [util.inspect.custom]() { return `Money<${this.n}>`; } }
console.log(new Money(5), [new Money(6)], util.inspect({ x: 1n, y: "z" }, { colors: true }));
util.callbackify(async (x) => x * 2)(21, (error, value) => console.log(error, value));
util.promisify((x, done) => done(null, x + 1))(1).then(console.log);
console.log(structuredClone({ a: new Date(5), m: new Map([[1, { b: 2 }]]) }), typeof util.TextEncoder);
