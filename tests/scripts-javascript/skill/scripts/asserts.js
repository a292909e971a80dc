const assert = require("assert");
const checks = {
  ok: () => assert(true), equal: () => assert.strictEqual(1, 2), deep: () => assert.deepStrictEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }),
  deeper: () => assert.deepStrictEqual(new Map([[1, new Set([2])]]), new Map([[1, new Set([2])]])), differs: () => assert.notDeepStrictEqual([1], [1, 2]),
  throws: () => assert.throws(() => { throw new RangeError("far"); }, RangeError), silent: () => assert.throws(() => {}), match: () => assert.match("abc", /b/), fail: () => assert.fail("said so"),
  message: () => assert.ok(0, "zero is not ok"),
};
for (const [name, check] of Object.entries(checks)) {
  try { check(); console.log(name, "holds"); } catch (error) { console.log(name, error.name, error.code, error.message.split("\n")[0]); }
}
assert.rejects(Promise.reject(new Error("x")), /x/).then(() => console.log("rejects holds"));
