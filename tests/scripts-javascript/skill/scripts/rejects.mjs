console.log("start");
process.on("exit", (code) => console.log("code", code));
await Promise.resolve();
Promise.reject(new Error("nobody handles this"));
await new Promise((done) => setTimeout(done, 20));
console.log("never");
