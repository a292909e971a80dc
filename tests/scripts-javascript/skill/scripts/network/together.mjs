// Requests at the same time, with timers, and requests that are given up.
const [plain] = process.argv.slice(2);

const both = await Promise.all([fetch(`${plain}/granted/both`), fetch(`${plain}/granted/both`)]);
console.log(await Promise.all(both.map((it) => it.text())));

const slow = fetch(`${plain}/granted/slow`, { signal: AbortSignal.timeout(100) });
const order = [];
setTimeout(() => order.push("timer"), 10);
await slow.catch((error) => order.push(error.name));
console.log(order);

const controller = new AbortController();
const aborted = fetch(`${plain}/granted/slow`, { signal: controller.signal });
controller.abort();
await aborted.catch((error) => console.log(error.name));
await fetch(plain, { signal: AbortSignal.abort() }).catch((error) => console.log(error.name));

const winner = await Promise.race([
  fetch(`${plain}/granted/plain`).then((it) => it.text()),
  new Promise((resolve) => setTimeout(resolve, 20_000, "timer").unref()),
]);
console.log(winner);
await fetch("http://localhost:1/").catch((error) => console.log(error.name, error.message, error.cause !== undefined));
