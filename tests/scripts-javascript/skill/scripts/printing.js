class Point { constructor(x, y) { this.x = x; this.y = y; } get norm() { return 1; } }
class Named extends Map { constructor() { super([["k", [1, 2]]]); } }
console.log({ a: 1, "b-c": [1, 2, 3], f() {}, g: () => 1, h: class A {}, n: null, u: undefined, s: Symbol("s"), big: 10n });
console.log(new Point(1, -0), [new Point(3, 4)], new Named(), new Set(["a", { b: 1 }]));
console.log([1.5, "two", [3, [4, [5, [6]]]]], { a: { b: { c: { d: 1 } } } });
console.log(Array.from({ length: 120 }, (_, i) => i));
console.log(["apple", "banana", "cherry", "dragonfruit", "elderberry", "fig", "grape", "honeydew"]);
console.log(new Date(0), /a+b/gi, [undefined, , 3], Object.create(null), new Error("plain").message);
console.log("%s|%d|%i|%f|%j|%o|%O|%%|%c", "s", 42.5, 42.9, "1.5", { a: [1] }, [1], { b: { c: {} } }, "css", "extra");
console.log(new Uint8Array([1, 2, 3]), Buffer.from("hi"), [new WeakMap()]);
console.log({ long: "x".repeat(100), list: Array.from({ length: 30 }, (_, i) => `item ${i}`) });
console.log([["nested", { deep: [{ deeper: true }] }]], { get a() { return 1; }, set a(v) {}, get b() { return 2; } });
console.log("it's", ["it's", 'say "hi"', `both ' and "`, "new\nline"], -0, [-0], NaN, true, null, undefined);
const loop = { name: "loop" }; loop.self = loop; console.log(loop);
console.log(Promise.resolve(4) instanceof Promise, [function named() {}, async () => {}, function* gen() {}], Symbol.iterator);
