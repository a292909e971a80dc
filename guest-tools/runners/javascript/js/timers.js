// Timers, immediates and ticks. `turn` runs one callback, so that the engine can run promises
// between two callbacks.
const ticks = [];
const unhandled = new Map();
// A binary heap: the entry that is due first is at the start. That of a cleared timer has no timer.
let entries = [];
let clearedCount = 0;
// The timers whose number the script has read.
const numbered = new Map();
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
    if (!this._isCleared) {
      remove(this);
      add(this);
    }
    return this;
  }
  close() {
    clear(this);
    return this;
  }
  [Symbol.toPrimitive]() {
    numbered.set(this._number, this);
    return this._number;
  }
}

const compare = (one, other) => one.due - other.due || one.order - other.order;

function add(timer) {
  const entry = { timer, due: now + timer._delay, order: ++sequence };
  timer._entry = entry;
  timer._isCleared = false;
  let index = entries.length;
  while (index > 0) {
    const parent = (index - 1) >> 1;
    if (compare(entries[parent], entry) < 0) {
      break;
    }
    entries[index] = entries[parent];
    index = parent;
  }
  entries[index] = entry;
}

// Removes the first entry from the heap, and returns its timer.
function takeFirst() {
  const { timer } = entries[0];
  const last = entries.pop();
  let index = 0;
  for (let child = 1; child < entries.length; child = 2 * index + 1) {
    if (child + 1 < entries.length && compare(entries[child + 1], entries[child]) < 0) {
      child += 1;
    }
    if (compare(last, entries[child]) < 0) {
      break;
    }
    entries[index] = entries[child];
    index = child;
  }
  if (entries.length > 0) {
    entries[index] = last;
  }
  return timer;
}

function remove(timer) {
  if (!timer._entry) {
    return;
  }
  timer._entry.timer = undefined;
  timer._entry = undefined;
  clearedCount += 1;
  // Seldom enough that clearing many timers takes little time.
  if (clearedCount > entries.length / 2) {
    // A sorted array is a heap.
    entries = entries.filter((entry) => entry.timer).sort(compare);
    clearedCount = 0;
  }
}

function clear(timer) {
  timer._isCleared = true;
  numbered.delete(timer._number);
  remove(timer);
}

class Immediate {
  constructor(callback, args) {
    this._callback = callback;
    this._args = args;
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  hasRef() {
    return true;
  }
}

exports.setTimeout = (callback, delay, ...args) => new Timeout(callback, +delay, args, false);
exports.setInterval = (callback, delay, ...args) => new Timeout(callback, +delay, args, true);
exports.clearTimeout = exports.clearInterval = (timer) => {
  if (timer != null) {
    const found = timer instanceof Timeout ? timer : numbered.get(+timer);
    found && clear(found);
  }
};
exports.setImmediate = (callback, ...args) => {
  const immediate = new Immediate(callback, args);
  immediates.push(immediate);
  return immediate;
};
exports.clearImmediate = (immediate) => {
  if (immediate instanceof Immediate) {
    immediate._callback = undefined;
  }
};
exports.queueMicrotask = (callback) => {
  Promise.resolve().then(() => exports.guard(callback));
};

const abortError = (signal) =>
  Object.assign(new Error("The operation was aborted", { cause: signal.reason }), { name: "AbortError", code: "ABORT_ERR" });

// Returns a promise of `value` for when the timer fires that `start` sets.
const later = (start, clear, value, { signal, ref } = {}) => new Promise((resolve, reject) => {
  if (signal?.aborted) {
    reject(abortError(signal));
    return;
  }
  const abort = () => {
    clear(timer);
    reject(abortError(signal));
  };
  const timer = start(() => {
    signal?.removeEventListener("abort", abort);
    resolve(value);
  });
  ref === false && timer.unref();
  signal?.addEventListener("abort", abort, { once: true });
});

exports.promises = {
  setTimeout: (delay, value, options) =>
    later((done) => exports.setTimeout(done, delay), exports.clearTimeout, value, options),
  setImmediate: (value, options) => later(exports.setImmediate, exports.clearImmediate, value, options),
  async *setInterval(delay, value, { signal, ref } = {}) {
    let dueCount = 0;
    let wake;
    const timer = exports.setInterval(() => {
      dueCount += 1;
      wake?.();
    }, delay);
    ref === false && timer.unref();
    const abort = () => wake?.();
    signal?.addEventListener("abort", abort);
    try {
      for (;;) {
        if (signal?.aborted) {
          throw abortError(signal);
        }
        if (dueCount > 0) {
          dueCount -= 1;
          yield value;
        } else {
          await new Promise((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      exports.clearInterval(timer);
      signal?.removeEventListener("abort", abort);
    }
  },
  scheduler: {
    wait: (delay, options) => exports.promises.setTimeout(delay, undefined, options),
    yield: () => exports.promises.setImmediate(),
  },
};
for (const name of ["setTimeout", "setImmediate"]) {
  Object.defineProperty(exports[name], Symbol.for("nodejs.util.promisify.custom"), {
    value: exports.promises[name],
  });
}

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
    if (immediate._callback) {
      hasEmittedBeforeExit = false;
      exports.guard(() => immediate._callback(...immediate._args));
      exports.runTicks();
    }
    return 0;
  }
  while (entries.length > 0 && !entries[0].timer) {
    takeFirst();
    clearedCount -= 1;
  }
  const entry = entries[0];
  if (entry && entry.due <= now) {
    const timer = takeFirst();
    timer._entry = undefined;
    hasEmittedBeforeExit = false;
    exports.guard(() => timer._callback(...timer._args));
    if (timer._isInterval && !timer._isCleared && !timer._entry) {
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
  if (entry && entry.due <= native.clock()) {
    now = Math.trunc(native.clock());
    return 0;
  }
  const isPending = native.httpIsPending();
  if (isPending || entries.some(({ timer }) => timer?._hasRef)) {
    return entry ? Math.max(entry.due - native.clock(), 0.05) : Infinity;
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
