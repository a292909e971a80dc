// What the sandbox does not have, and what would do instead: in one line each, so that a
// model can change its plan.
const WHY = {
  PROCESS: "the sandbox starts no processes; call the JavaScript function instead, or report the command to the user",
  NETWORK: "the sandbox has no network; pass the data in with `files` or `stdin`",
  THREAD: "the sandbox has no threads; call the function directly, or use promises",
  NATIVE: "the sandbox runs no native code",
  TERMINAL: "the sandbox has no terminal; use arguments and stdin",
  SIGNAL: "the sandbox has no signals",
  WATCH: "nothing but the script changes files here; read them again instead",
  STREAM: "use fs.readFileSync, fs.createReadStream, or `for await` over process.stdin",
  ENGINE: "the engine is QuickJS, and has no such part",
};

const refuse = (name, why, code) => {
  const line = `${name}: ${WHY[why]}`;
  native.note(line);
  return Object.assign(new Error(line), code && { code });
};
const refusing = (module, names, why, code) =>
  Object.fromEntries(names.map((name) => [name, Object.defineProperty(function () {
    throw refuse(`${module}.${name}`, why, code);
  }, "name", { value: name })]));

const web = (module) => ({
  ...refusing(module, ["request", "get", "createServer", "Server", "ClientRequest"], "NETWORK", "ENETUNREACH"),
  Agent: class Agent {},
  globalAgent: {},
  METHODS: ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"],
  STATUS_CODES: {},
});
const NAMES = ["lookup", "resolve", "resolve4", "resolve6", "reverse"];
// Modules whose import works, so that a script which can do without goes on.
const modules = {
  child_process: () => refusing("child_process",
    ["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync", "fork"], "PROCESS", "ENOENT"),
  cluster: () => ({ isMaster: true, isPrimary: true, isWorker: false, ...refusing("cluster", ["fork"], "PROCESS", "ENOENT") }),
  dgram: () => refusing("dgram", ["createSocket"], "NETWORK", "ENETUNREACH"),
  dns: () => ({
    ...refusing("dns", NAMES, "NETWORK", "ENOTFOUND"),
    promises: refusing("dns.promises", NAMES, "NETWORK", "ENOTFOUND"),
  }),
  http: () => web("http"),
  https: () => web("https"),
  http2: () => refusing("http2", ["connect", "createServer", "createSecureServer"], "NETWORK", "ENETUNREACH"),
  net: () => ({
    ...refusing("net", ["connect", "createConnection", "createServer", "Socket", "Server"], "NETWORK", "ENETUNREACH"),
    isIP: (text) => (/^\d{1,3}(\.\d{1,3}){3}$/.test(text) ? 4 : /^[\da-f:]*:[\da-f:.]*$/i.test(text) ? 6 : 0),
  }),
  tls: () => refusing("tls", ["connect", "createServer"], "NETWORK", "ENETUNREACH"),
  tty: () => ({ isatty: () => false, ...refusing("tty", ["ReadStream", "WriteStream"], "TERMINAL") }),
  worker_threads: () => ({
    isMainThread: true,
    parentPort: null,
    workerData: null,
    threadId: 0,
    ...refusing("worker_threads", ["Worker"], "THREAD"),
  }),
};
// Modules whose import fails.
const missing = {
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

exports.refuse = refuse;
exports.modules = modules;
exports.missing = (name) => missing[name] && refuse(`node:${name}`, missing[name], "ERR_UNKNOWN_BUILTIN_MODULE");
// A package that the skill does not bring.
exports.package = (name, from, why) => {
  const line = why ?? `${name}: the sandbox has no npm; only packages in the skill's own node_modules are found`;
  native.note(line);
  return Object.assign(new Error(`Cannot find module '${name}'\nRequire stack:\n- ${from}\n[${line}]`), {
    code: "MODULE_NOT_FOUND",
    requireStack: [from],
  });
};
exports.fetch = () => refuse("fetch", "NETWORK", "ENETUNREACH");
exports.watch = (name) => refuse(`fs.${name}`, "WATCH", "ENOSYS");
exports.globals = (global) => {
  for (const [name, why] of [["WebSocket", "NETWORK"], ["Worker", "THREAD"], ["WebAssembly", "ENGINE"]]) {
    global(name, () => function () {
      throw refuse(name, why);
    });
  }
};
