// Aborts and clears timers, also very many.
import timers, { scheduler, setImmediate as nextTurn, setInterval as ticks, setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";

const outcome = (promise) => promise.then((value) => `value ${value}`, (error) => `${error.name} ${error.code} ${error.message} ${error.cause?.name ?? error.cause}`);
const controller = new AbortController();
const aborted = outcome(wait(60_000, "late", { signal: controller.signal }));
const again = outcome(wait(1, "in time", { signal: controller.signal }));
console.log(await again);
controller.abort();
console.log(await aborted);
console.log(await outcome(wait(1, "x", { signal: controller.signal })), await outcome(nextTurn("x", { signal: AbortSignal.abort("why") })));
console.log(await nextTurn("soon"), await scheduler.wait(1), await scheduler.yield(), await promisify(setImmediate)("value"), await promisify(setTimeout)(1, "other"));
console.log(await Promise.race([wait(60_000, "never", { ref: false }), wait(1, "first")]));

let count = 0;
for await (const value of ticks(1, "tick")) {
  console.log(value, (count += 1));
  if (count === 3) {
    break;
  }
}
const stopped = new AbortController();
try {
  for await (const value of timers.setInterval(1, "until", { signal: stopped.signal })) {
    console.log(value);
    stopped.abort();
  }
} catch (error) {
  console.log(error.name, error.code);
}

let fired = 0;
const many = Array.from({ length: 20_000 }, (_, number) => setTimeout(() => (fired += 1), 1 + (number % 7)));
many.forEach((timer, number) => number % 100 && clearTimeout(timer));
const turns = Array.from({ length: 20_000 }, () => setImmediate(() => (fired += 1)));
turns.forEach((turn, number) => number % 100 && clearImmediate(turn));
await wait(20);
console.log(fired);

const byNumber = setTimeout(() => console.log("not reached"), 5);
clearTimeout(`${+byNumber}`);
const closed = setTimeout(() => console.log("not reached"), 5);
closed.close();
clearTimeout(123456);
clearTimeout({});
clearImmediate(undefined);
const refreshed = setTimeout(() => console.log("refreshed"), 5);
refreshed.refresh();
await wait(10);
refreshed.refresh();
await wait(10);
const once = setInterval(() => {
  console.log("once");
  clearInterval(once);
}, 1);
await wait(10);
await new Promise((resolve) => {
  const repeated = setInterval(() => {
    console.log("repeated");
    repeated.refresh();
    if ((count += 1) > 5) {
      clearInterval(repeated);
      setTimeout(resolve, 5);
    }
  }, 1);
});
const order = [];
for (const delay of [30, 10, 20, 10, 30, 1, 0, 20]) {
  setTimeout(() => order.push(delay), delay);
}
await wait(60);
console.log(order.join(" "));
