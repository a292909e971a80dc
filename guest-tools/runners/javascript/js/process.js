// `process`: the arguments, the streams, and the end of a script.
const timers = require("timers");
let emitter;
let folder = native.folder;
let exitCode;
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
  get exitCode() {
    return exitCode;
  },
  set exitCode(code) {
    checkExitCode(code);
    exitCode = code;
  },
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
  exit(...codes) {
    if (codes.length > 0) {
      process.exitCode = codes[0];
    }
    exit();
  },
  reallyExit: (code) => exit(code ?? 0),
  abort: () => exit(134),
  kill() {
    throw require("unsupported").error("process.kill", "SIGNAL", "ESRCH");
  },
  umask: () => 0o22,
  uptime: () => native.clock() / 1000,
  getuid: () => 1000,
  getgid: () => 1000,
  hrtime: Object.assign(
    (previous) => {
      const nanoseconds = BigInt(Math.round(native.clock() * 1e6));
      let time = [Number(nanoseconds / 1000000000n), Number(nanoseconds % 1000000000n)];
      if (previous) {
        time = [time[0] - previous[0], time[1] - previous[1]];
        if (time[1] < 0) {
          time = [time[0] - 1, time[1] + 1e9];
        }
      }
      return time;
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
  // Functions for the runner, not for scripts.
  end: exit,
  endWithError,
  endWithHandlersError,
};

for (const name of ["on", "once", "off", "addListener", "removeListener", "removeAllListeners",
  "emit", "listeners", "listenerCount", "prependListener", "eventNames", "setMaxListeners"]) {
  process[name] = (...args) => {
    if (!emitter && (name === "emit" || name === "listenerCount")) {
      return name === "emit" ? false : 0;
    }
    emitter ??= new (require("events"))();
    const result = emitter[name](...args);
    return result === emitter ? process : result;
  };
}
for (const name of ["end", "endWithError", "endWithHandlersError"]) {
  Object.defineProperty(process, name, { enumerable: false });
}

function streams() {
  return require("streams").standard;
}

// Throws the error of Node unless this is undefined, null, an integer or the text of one.
function checkExitCode(code) {
  const number = typeof code === "string" && code !== "" && !isNaN(code) ? Number(code) : code;
  if (code == null || Number.isSafeInteger(number)) {
    return;
  }
  const received = require("util").inspect(code);
  throw typeof number === "number"
    ? Object.assign(new RangeError(`The value of "code" is out of range. It must be an integer. Received ${received}`),
      { code: "ERR_OUT_OF_RANGE" })
    : Object.assign(new TypeError(`The "code" argument must be of type number. Received ${received}`),
      { code: "ERR_INVALID_ARG_TYPE" });
}

// Ends the script. No code of it runs after this, not even a `catch` or a `finally`.
function exit(code = exitCode) {
  process.exitCode = code;
  if (!isEnding) {
    isEnding = true;
    try {
      process.emit("exit", Number(code ?? 0));
    } catch (error) {
      printError(error);
      exitCode ??= 1;
    }
  }
  native.exit(Number(exitCode ?? 0) & 255);
  for (;;);
}

function endWithError(error, origin) {
  printError(error, origin);
  exit(1);
}

// Ends the script after an error in its handler of errors. Its other handlers do not run.
function endWithHandlersError(error) {
  printError(error);
  native.exit(7);
  for (;;);
}

function printError(error, origin) {
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
