const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));
const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1));
console.log(fib(22), depth(400));
const walk = (dir, fs = require("fs")) => fs.readdirSync(dir, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? walk(`${dir}/${e.name}`) : [`${dir}/${e.name}`]));
console.log(walk("data").sort(), walk("scripts/lib").length);
const sieve = (n) => { const c = new Uint8Array(n + 1); const out = []; for (let i = 2; i <= n; i++) if (!c[i]) { out.push(i); for (let j = i * i; j <= n; j += i) c[j] = 1; } return out; };
console.log(sieve(100000).length, sieve(50).join());
