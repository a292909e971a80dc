// Timers, immediates and ticks. `turn` runs one callback, so that the engine can run promises
// between two callbacks.
const ticks = [];
const unhandled = new Map();
let timers = [];
let immediates = [];
let batch = [];
let sequence = 0;
let now = Math.trunc(native.clock());
let hasEmittedBeforeExit = false;

class Timeout {
  constructor(callback, delay, args, isInterval) {
    if (typeof callback !== "function") {
      const error = new TypeError('The "callback" argument must be of type function. Received ' +
        (callback === undefined ? "undefined" : require("util").inspect(callback)));
      error.code = "ERR_INVALID_ARG_TYPE";
      throw error;
    }
    this._callback = callback;
    this._args = args;
    this._delay = delay >= 1 && delay <= 2147483647 ? Math.trunc(delay) : 1;
    this._isInterval = isInterval;
    this._hasRef = true;
    this._number = ++sequence;
    add(this);
  }
  ref() {
    this._hasRef = true;
    return this;
  }
  unref() {
    this._hasRef = false;
    return this;
  }
  hasRef() {
    return this._hasRef;
  }
  refresh() {
    remove(this);
    this._cleared = false;
    add(this);
    return this;
  }
  close() {
    remove(this);
    return this;
  }
  [Symbol.toPrimitive]() {
    return this._number;
  }
}

function add(timer) {
  timer._due = now + timer._delay;
  timer._order = ++sequence;
  let index = timers.length;
  while (index > 0 && timers[index - 1]._due > timer._due) {
    index -= 1;
  }
  timers.splice(index, 0, timer);
}

function remove(timer) {
  if (timer instanceof Timeout) {
    timer._cleared = true;
  }
  timers = timers.filter((other) => other !== timer && other._number !== timer);
}

exports.setTimeout = (callback, delay, ...args) => new Timeout(callback, +delay, args, false);
exports.setInterval = (callback, delay, ...args) => new Timeout(callback, +delay, args, true);
exports.clearTimeout = exports.clearInterval = (timer) => {
  if (timer != null) {
    remove(timer instanceof Timeout ? timer : +timer);
  }
};
exports.setImmediate = (callback, ...args) => {
  const immediate = { callback, args, ref: () => immediate, unref: () => immediate };
  immediates.push(immediate);
  return immediate;
};
exports.clearImmediate = (immediate) => {
  immediates = immediates.filter((other) => other !== immediate);
  batch = batch.filter((other) => other !== immediate);
};
exports.queueMicrotask = (callback) => {
  Promise.resolve().then(() => exports.guard(callback));
};
exports.promises = {
  setTimeout: (delay, value) => new Promise((resolve) => exports.setTimeout(resolve, delay, value)),
  setImmediate: (value) => new Promise((resolve) => exports.setImmediate(resolve, value)),
};
Object.defineProperty(exports.setTimeout, Symbol.for("nodejs.util.promisify.custom"), {
  value: exports.promises.setTimeout,
});

exports.nextTick = (callback, ...args) => {
  ticks.push([callback, args]);
};

exports.runTicks = () => {
  for (let tick; (tick = ticks.shift()); ) {
    exports.guard(() => tick[0](...tick[1]));
  }
};

// Calls a function of the script. An error that it throws ends the script.
exports.guard = (callback) => {
  try {
    callback();
  } catch (error) {
    exports.uncaught(error, "uncaughtException");
  }
};

exports.uncaught = (error, origin) => {
  const process = require("process");
  try {
    process.emit("uncaughtExceptionMonitor", error, origin);
    if (process.emit("uncaughtException", error, origin)) {
      return;
    }
  } catch (other) {
    process.endWithHandlersError(other);
  }
  process.endWithError(error, origin);
};

exports.rejection = (promise, reason, handled) => {
  handled ? unhandled.delete(promise) : unhandled.set(promise, reason);
};

// Runs the next callback. Returns the milliseconds to wait before the next turn.
exports.turn = () => {
  if (ticks.length > 0) {
    exports.runTicks();
    return 0;
  }
  for (const [promise, reason] of unhandled) {
    unhandled.delete(promise);
    const process = require("process");
    if (process.listenerCount("unhandledRejection") > 0) {
      exports.guard(() => process.emit("unhandledRejection", reason, promise));
    } else {
      exports.uncaught(reason, "unhandledRejection");
    }
    return 0;
  }
  const event = native.httpIsPending() ? native.httpEvent() : undefined;
  if (event) {
    hasEmittedBeforeExit = false;
    exports.guard(() => require("fetch").handle(event));
    exports.runTicks();
    return 0;
  }
  const immediate = batch.shift();
  if (immediate) {
    hasEmittedBeforeExit = false;
    exports.guard(() => immediate.callback(...immediate.args));
    exports.runTicks();
    return 0;
  }
  const timer = timers[0];
  if (timer && timer._due <= now) {
    timers.shift();
    hasEmittedBeforeExit = false;
    exports.guard(() => timer._callback(...timer._args));
    if (timer._isInterval && !timer._cleared && !timers.includes(timer)) {
      now = Math.trunc(native.clock());
      add(timer);
    }
    exports.runTicks();
    return 0;
  }
  if (immediates.length > 0) {
    batch = immediates;
    immediates = [];
    now = Math.trunc(native.clock());
    return 0;
  }
  if (timer && timer._due <= native.clock()) {
    now = Math.trunc(native.clock());
    return 0;
  }
  const isPending = native.httpIsPending();
  if (isPending || timers.some((timer) => timer._hasRef)) {
    return timer ? Math.max(timer._due - native.clock(), 0.05) : Infinity;
  }
  const process = require("process");
  if (!hasEmittedBeforeExit) {
    hasEmittedBeforeExit = true;
    exports.guard(() => process.emit("beforeExit", process.exitCode ?? 0));
    return 0;
  }
  const isMainPending = require("loader").isMainPending();
  if (isMainPending) {
    native.output(2, "Warning: Detected unsettled top-level await\n");
  }
  process.end(isMainPending ? 13 : undefined);
  return 0;
};
