// Timers, ticks, and what is left to do: `turn` runs one thing at a time, so that the
// engine runs promises in between.
const ticks = [];
const unhandled = new Map();
let timers = [];
let immediates = [];
let batch = [];
let sequence = 0;
let now = Math.trunc(native.clock());
let toldEnd = false;

class Timeout {
  constructor(act, delay, args, repeats) {
    if (typeof act !== "function") {
      const error = new TypeError('The "callback" argument must be of type function. Received ' +
        (act === undefined ? "undefined" : require("util").inspect(act)));
      error.code = "ERR_INVALID_ARG_TYPE";
      throw error;
    }
    this._act = act;
    this._args = args;
    this._delay = delay >= 1 && delay <= 2147483647 ? Math.trunc(delay) : 1;
    this._repeats = repeats;
    this._holds = true;
    this._number = ++sequence;
    add(this);
  }
  ref() {
    this._holds = true;
    return this;
  }
  unref() {
    this._holds = false;
    return this;
  }
  hasRef() {
    return this._holds;
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
  let at = timers.length;
  while (at > 0 && timers[at - 1]._due > timer._due) {
    at -= 1;
  }
  timers.splice(at, 0, timer);
}

function remove(timer) {
  if (timer instanceof Timeout) {
    timer._cleared = true;
  }
  timers = timers.filter((other) => other !== timer && other._number !== timer);
}

exports.setTimeout = (act, delay, ...args) => new Timeout(act, +delay, args, false);
exports.setInterval = (act, delay, ...args) => new Timeout(act, +delay, args, true);
exports.clearTimeout = exports.clearInterval = (timer) => {
  if (timer != null) {
    remove(timer instanceof Timeout ? timer : +timer);
  }
};
exports.setImmediate = (act, ...args) => {
  const immediate = { act, args, holds: true, ref: () => immediate, unref: () => immediate };
  immediates.push(immediate);
  return immediate;
};
exports.clearImmediate = (immediate) => {
  immediates = immediates.filter((other) => other !== immediate);
  batch = batch.filter((other) => other !== immediate);
};
exports.queueMicrotask = (act) => {
  Promise.resolve().then(() => exports.guard(act));
};
exports.promises = {
  setTimeout: (delay, value) => new Promise((done) => exports.setTimeout(done, delay, value)),
  setImmediate: (value) => new Promise((done) => exports.setImmediate(done, value)),
};
Object.defineProperty(exports.setTimeout, Symbol.for("nodejs.util.promisify.custom"), {
  value: exports.promises.setTimeout,
});

exports.nextTick = (act, ...args) => {
  ticks.push([act, args]);
};

exports.ticks = () => {
  for (let tick; (tick = ticks.shift()); ) {
    exports.guard(() => tick[0](...tick[1]));
  }
};

// Calls a function of the script; an error that it throws ends the script.
exports.guard = (act) => {
  try {
    act();
  } catch (error) {
    exports.uncaught(error, "uncaughtException");
  }
};

exports.uncaught = (error, origin) => {
  const process = require("process");
  if (process.listenerCount("uncaughtException") > 0) {
    process.emit("uncaughtException", error, origin);
    return;
  }
  process.broken(error, origin);
};

exports.rejection = (promise, reason, handled) => {
  handled ? unhandled.delete(promise) : unhandled.set(promise, reason);
};

// Runs what is next. Returns the milliseconds to wait before the next turn.
exports.turn = () => {
  if (ticks.length > 0) {
    exports.ticks();
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
  const immediate = batch.shift();
  if (immediate) {
    exports.guard(() => immediate.act(...immediate.args));
    exports.ticks();
    return 0;
  }
  const timer = timers[0];
  if (timer && timer._due <= now) {
    timers.shift();
    exports.guard(() => timer._act(...timer._args));
    if (timer._repeats && !timer._cleared && !timers.includes(timer)) {
      now = Math.trunc(native.clock());
      add(timer);
    }
    exports.ticks();
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
  if (timers.some((timer) => timer._holds)) {
    return Math.max(timers[0]._due - native.clock(), 0.05);
  }
  const process = require("process");
  if (!toldEnd) {
    toldEnd = true;
    exports.guard(() => process.emit("beforeExit", process.exitCode ?? 0));
    return 0;
  }
  const isWaiting = require("loader").isWaiting();
  if (isWaiting) {
    native.output(2, "Warning: Detected unsettled top-level await\n");
  }
  process.end(isWaiting ? 13 : undefined);
  return 0;
};
