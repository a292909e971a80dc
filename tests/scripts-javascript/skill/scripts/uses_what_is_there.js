const { isMainThread } = require("worker_threads");
const child = require("child_process");
console.log(isMainThread, typeof child.execSync, typeof require("http").request, typeof require("net").createServer, require("module").builtinModules.includes("fs"));
