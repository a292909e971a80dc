process.on("uncaughtException", (error, origin) => console.log("caught:", error.message, origin));
process.on("unhandledRejection", (reason) => console.log("rejected:", reason.message));
setTimeout(() => { throw new Error("from a timer"); }, 1);
Promise.reject(new Error("from a promise"));
setTimeout(() => console.log("still here"), 5);
