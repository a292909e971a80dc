"use strict";
const { a = 1, ...rest } = { b: 2, c: 3 }; const [x, , y = 9, ...z] = [1, 2, undefined, 4, 5];
console.log(a, rest, x, y, z, rest?.q?.r ?? "none", 2n ** 64n, 1_000, [3, 1, 2].toSorted(), [1, 2, 3].with(1, 9), Object.groupBy ? 1 : 1);
class A { static #n = 0; static { A.#n = 5; } #p = 1; get p() { return this.#p; } static n() { return A.#n; } static is(o) { return #p in o; } }
console.log(new A().p, A.n(), A.is({}), A.is(new A()));
function* gen() { const got = yield 1; console.log("got", got); return 3; }
const it = gen(); console.log(it.next(), it.next("x"), [..."añ🎉"].length, "abc".at(-1), "x".padStart(3, "-"), "a-b-c".replaceAll("-", "+"));
label: for (const i of [1, 2]) for (const j of [1, 2]) { if (j === 2) continue label; console.log(i, j); }
const p = new Proxy({}, { get: (_, k) => `got ${String(k)}` }); console.log(p.anything, Reflect.ownKeys({ b: 1, a: 2, 1: 3 }), new WeakRef({}) instanceof WeakRef);
const e = new Error("outer", { cause: new TypeError("inner") }); console.log(e.cause.message, e instanceof Error, String(e.cause), new AggregateError([1], "agg").errors);
console.log([1, [2, [3, [4]]]].flat(Infinity), Object.fromEntries([["k", 1]]), Number.parseFloat("1.5e3"), (255).toString(16), 0.1 + 0.2, (1234.5678).toFixed(2), Math.max(...[1, 5, 3]), [10, 9, 1].sort(), parseInt("12px"), 5e-324, 1e21, -1 >>> 0);
console.log(JSON.stringify({ u: undefined, f() {}, d: new Date(0), n: NaN, nested: [undefined, () => 1], big: "\u2028\ud800" }), JSON.parse('{"__proto__": 1, "a": [1e3]}', (k, v) => (typeof v === "number" ? v + 1 : v)));
