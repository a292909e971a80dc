// The features that the sandbox does not support. Using one throws an error whose message, in one
// line, says why and what to use instead, so that a model can change its plan.
const REASONS = {
  PROCESS: "the sandbox starts no processes; call the JavaScript function instead, or report the command to the user",
  NETWORK: "the sandbox has no sockets; use `fetch`, or `node:https`",
  SERVER: "the sandbox has no servers",
  THREAD: "the sandbox has no threads; call the function directly, or use promises",
  NATIVE: "the sandbox runs no native code",
  TERMINAL: "the sandbox has no terminal; use arguments and stdin",
  SIGNAL: "the sandbox has no signals",
  WATCH: "nothing but the script changes files here; read them again instead",
  STREAM: "use fs.readFileSync, fs.createReadStream, or `for await` over process.stdin",
  ENGINE: "the sandbox's JavaScript engine, QuickJS, does not support it",
};

// Returns the error of an unsupported feature, and notes it for the answer.
const unsupportedError = (name, reason, code) => {
  const line = `${name}: ${REASONS[reason]}`;
  native.note(line);
  return Object.assign(new Error(line), code && { code });
};
// Returns functions of a module that throw this error.
const throwing = (module, names, reason, code) =>
  Object.fromEntries(names.map((name) => [name, Object.defineProperty(function () {
    throw unsupportedError(`${module}.${name}`, reason, code);
  }, "name", { value: name })]));

const DNS_FUNCTIONS = ["lookup", "resolve", "resolve4", "resolve6", "reverse"];
// Modules whose import works, so that a script can continue if it does not need them.
const modules = {
  child_process: () => throwing("child_process",
    ["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync", "fork"], "PROCESS", "ENOENT"),
  cluster: () => ({ isMaster: true, isPrimary: true, isWorker: false, ...throwing("cluster", ["fork"], "PROCESS", "ENOENT") }),
  dgram: () => throwing("dgram", ["createSocket"], "NETWORK", "ENETUNREACH"),
  dns: () => ({
    ...throwing("dns", DNS_FUNCTIONS, "NETWORK", "ENOTFOUND"),
    promises: throwing("dns.promises", DNS_FUNCTIONS, "NETWORK", "ENOTFOUND"),
  }),
  http: () => require("http").module("http:"),
  https: () => require("http").module("https:"),
  http2: () => throwing("http2", ["connect", "createServer", "createSecureServer"], "NETWORK", "ENETUNREACH"),
  net: () => ({
    ...throwing("net", ["connect", "createConnection", "createServer", "Socket", "Server"], "NETWORK", "ENETUNREACH"),
    isIP: (text) => (/^\d{1,3}(\.\d{1,3}){3}$/.test(text) ? 4 : /^[\da-f:]*:[\da-f:.]*$/i.test(text) ? 6 : 0),
  }),
  tls: () => throwing("tls", ["connect", "createServer"], "NETWORK", "ENETUNREACH"),
  tty: () => ({ isatty: () => false, ...throwing("tty", ["ReadStream", "WriteStream"], "TERMINAL") }),
  worker_threads: () => ({
    isMainThread: true,
    parentPort: null,
    workerData: null,
    threadId: 0,
    ...throwing("worker_threads", ["Worker"], "THREAD"),
  }),
};
// Modules whose import fails.
const missingModules = {
  async_hooks: "ENGINE",
  diagnostics_channel: "ENGINE",
  inspector: "ENGINE",
  repl: "TERMINAL",
  sqlite: "NATIVE",
  stream: "STREAM",
  "stream/promises": "STREAM",
  test: "ENGINE",
  v8: "ENGINE",
  vm: "ENGINE",
  wasi: "ENGINE",
  zlib: "NATIVE",
};

exports.throwing = throwing;
exports.error = unsupportedError;
exports.modules = modules;
// Returns the error of importing a module of Node, or undefined if its import works.
exports.moduleError = (name) =>
  Object.hasOwn(missingModules, name) && unsupportedError(`node:${name}`, missingModules[name], "ERR_UNKNOWN_BUILTIN_MODULE");
// Returns the error of importing a package that the skill does not have.
exports.packageError = (name, from, reason) => {
  const line = reason ?? `${name}: the sandbox has no npm; only packages in the skill's own node_modules are found`;
  native.note(line);
  return Object.assign(new Error(`Cannot find module '${name}'\nRequire stack:\n- ${from}\n[${line}]`), {
    code: "MODULE_NOT_FOUND",
    requireStack: [from],
  });
};
exports.watchError = (name) => unsupportedError(`fs.${name}`, "WATCH", "ENOSYS");
exports.defineGlobals = (defineGlobal) => {
  for (const [name, reason] of [["WebSocket", "NETWORK"], ["Worker", "THREAD"], ["WebAssembly", "ENGINE"]]) {
    defineGlobal(name, () => function () {
      throw unsupportedError(name, reason);
    });
  }
};
