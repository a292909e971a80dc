// `process`: the arguments, the streams, and the end of a script.
const timers = require("timers");
let emitter;
let folder = native.folder;
let isEnding = false;

const process = {
  argv: ["/usr/bin/node", native.script, ...native.args],
  argv0: "node",
  execArgv: [],
  execPath: "/usr/bin/node",
  title: "node",
  pid: 1,
  ppid: 0,
  platform: "linux",
  arch: "wasm32",
  version: "v22.0.0",
  versions: { node: "22.0.0", quickjs: "0.11.0" },
  release: { name: "node" },
  config: { variables: {} },
  features: {},
  exitCode: undefined,
  env: { ...native.environment, HOME: native.folder, TMPDIR: "/tmp", PWD: native.folder },
  nextTick: timers.nextTick,
  cwd: () => folder,
  chdir(path) {
    const fs = require("fs");
    const target = fs.realpathSync(path);
    if (!fs.statSync(target).isDirectory()) {
      throw require("fs").error("ENOTDIR", "chdir", path);
    }
    folder = target;
  },
  exit(code) {
    leave(code ?? process.exitCode ?? 0);
  },
  reallyExit: (code) => leave(code ?? 0),
  abort: () => leave(134),
  kill() {
    throw require("lacks").refuse("process.kill", "SIGNAL", "ESRCH");
  },
  umask: () => 0o22,
  uptime: () => native.clock() / 1000,
  getuid: () => 1000,
  getgid: () => 1000,
  hrtime: Object.assign(
    (before) => {
      const nanoseconds = BigInt(Math.round(native.clock() * 1e6));
      let found = [Number(nanoseconds / 1000000000n), Number(nanoseconds % 1000000000n)];
      if (before) {
        found = [found[0] - before[0], found[1] - before[1]];
        if (found[1] < 0) {
          found = [found[0] - 1, found[1] + 1e9];
        }
      }
      return found;
    },
    { bigint: () => BigInt(Math.round(native.clock() * 1e6)) },
  ),
  memoryUsage: () => ({ rss: 16 << 20, heapTotal: 8 << 20, heapUsed: 4 << 20, external: 0, arrayBuffers: 0 }),
  cpuUsage: () => ({ user: Math.round(native.clock() * 1000), system: 0 }),
  emitWarning(warning, options) {
    const name = warning?.name ?? (typeof options === "string" ? options : options?.type) ?? "Warning";
    process.stderr.write(`(node:1) ${name}: ${warning?.message ?? warning}\n`);
  },
  get stdin() {
    return streams().stdin;
  },
  get stdout() {
    return streams().stdout;
  },
  get stderr() {
    return streams().stderr;
  },
  // The rest is the runner's.
  end: leave,
  broken,
};

for (const name of ["on", "once", "off", "addListener", "removeListener", "removeAllListeners",
  "emit", "listeners", "listenerCount", "prependListener", "eventNames", "setMaxListeners"]) {
  process[name] = (...args) => {
    if (!emitter && (name === "emit" || name === "listenerCount")) {
      return name === "emit" ? false : 0;
    }
    emitter ??= new (require("events"))();
    const found = emitter[name](...args);
    return found === emitter ? process : found;
  };
}
for (const name of ["end", "broken"]) {
  Object.defineProperty(process, name, { enumerable: false });
}

function streams() {
  return require("streams").standard;
}

// Ends the script: nothing of it runs after this, whatever catches.
function leave(code = process.exitCode ?? 0) {
  if (!isEnding) {
    isEnding = true;
    process.exitCode = code;
    try {
      process.emit("exit", Number(code));
      code = process.exitCode;
    } catch (error) {
      print(error);
      code = 1;
    }
  }
  native.exit(Number(code));
  for (;;);
}

function broken(error, origin) {
  print(error, origin);
  leave(1);
}

function print(error, origin) {
  let text;
  if (error instanceof Error) {
    text = require("util").inspect(error);
  } else if (origin === "unhandledRejection") {
    text = `[UnhandledPromiseRejection: a promise was rejected with ${require("util").inspect(error)}, and nothing handles it]`;
  } else {
    text = `Uncaught:\n${require("util").inspect(error)}`;
  }
  native.output(2, `${text}\n`.toWellFormed());
}

module.exports = process;
