// `util`: `inspect` and `format` from Node's own code, and small versions of the rest.

// Loads `inspect` at its first call, because it is the largest module of the runner.
function loadInspect() {
  // The module reads all globals while it loads, and QuickJS has no `Atomics`.
  const isWithoutAtomics = globalThis.Atomics === undefined;
  if (isWithoutAtomics) {
    globalThis.Atomics = {};
  }
  const inspectModule = require("inspect/inspect");
  if (isWithoutAtomics) {
    delete globalThis.Atomics;
  }
  return inspectModule;
}
const inspect = (...args) => loadInspect().inspect(...args);
const format = (...args) => loadInspect().format(...args);
const formatWithOptions = (...args) => loadInspect().formatWithOptions(...args);
const stripVTControlCharacters = (text) => loadInspect().stripVTControlCharacters(text);
inspect.custom = Symbol.for("nodejs.util.inspect.custom");
for (const name of ["defaultOptions", "colors", "styles"]) {
  Object.defineProperty(inspect, name, {
    get: () => loadInspect().inspect[name],
    set(value) {
      loadInspect().inspect[name] = value;
    },
  });
}

const custom = Symbol.for("nodejs.util.promisify.custom");
const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
const isOf = (...names) => (value) => typeof value === "object" && value !== null && names.includes(tag(value));
const isTyped = (name) => (value) => ArrayBuffer.isView(value) && value.constructor?.name === name;
const isFunction = (...names) => (value) => typeof value === "function" && names.includes(value.constructor?.name);

const types = {
  isAnyArrayBuffer: isOf("ArrayBuffer", "SharedArrayBuffer"),
  isArgumentsObject: isOf("Arguments"),
  isArrayBuffer: isOf("ArrayBuffer"),
  isArrayBufferView: ArrayBuffer.isView,
  isAsyncFunction: isFunction("AsyncFunction", "AsyncGeneratorFunction"),
  isBigIntObject: isOf("BigInt"),
  isBooleanObject: isOf("Boolean"),
  isBoxedPrimitive: isOf("Number", "String", "Boolean", "BigInt", "Symbol"),
  isDataView: (value) => value instanceof DataView,
  isDate: (value) => value instanceof Date,
  isGeneratorFunction: isFunction("GeneratorFunction", "AsyncGeneratorFunction"),
  isGeneratorObject: isOf("Generator"),
  isMap: (value) => value instanceof Map,
  isMapIterator: isOf("Map Iterator"),
  isNativeError: (value) => value instanceof Error,
  isNumberObject: isOf("Number"),
  isPromise: (value) => value instanceof Promise,
  isProxy: () => false,
  isRegExp: (value) => value instanceof RegExp,
  isSet: (value) => value instanceof Set,
  isSetIterator: isOf("Set Iterator"),
  isSharedArrayBuffer: isOf("SharedArrayBuffer"),
  isStringObject: isOf("String"),
  isSymbolObject: isOf("Symbol"),
  isTypedArray: (value) => ArrayBuffer.isView(value) && !(value instanceof DataView),
  isWeakMap: (value) => value instanceof WeakMap,
  isWeakSet: (value) => value instanceof WeakSet,
};
for (const name of ["Int8", "Uint8", "Uint8Clamped", "Int16", "Uint16", "Int32", "Uint32", "Float32", "Float64", "BigInt64", "BigUint64"]) {
  types[`is${name}Array`] = isTyped(`${name}Array`);
}
types.isUint8Array = (value) => value instanceof Uint8Array;

function promisify(original) {
  if (typeof original !== "function") {
    const error = new TypeError(`The "original" argument must be of type function. Received ${inspect(original)}`);
    throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
  }
  if (original[custom]) {
    return original[custom];
  }
  return Object.defineProperty(
    function (...args) {
      return new Promise((resolve, reject) => {
        original.call(this, ...args, (error, value) => (error ? reject(error) : resolve(value)));
      });
    },
    "name",
    { value: original.name },
  );
}
promisify.custom = custom;

const STYLES = { reset: [0, 0], bold: [1, 22], dim: [2, 22], italic: [3, 23], underline: [4, 24], inverse: [7, 27],
  strikethrough: [9, 29], black: [30, 39], red: [31, 39], green: [32, 39], yellow: [33, 39], blue: [34, 39],
  magenta: [35, 39], cyan: [36, 39], white: [37, 39], gray: [90, 39], grey: [90, 39] };

module.exports = {
  inspect,
  format,
  formatWithOptions,
  stripVTControlCharacters,
  types,
  promisify,
  callbackify: (original) =>
    function (...args) {
      const callback = args.pop();
      original.apply(this, args).then(
        (value) => process.nextTick(callback, null, value),
        (error) => process.nextTick(callback, error ?? new Error("the promise was rejected without a reason")),
      );
    },
  deprecate: (original) => original,
  debuglog: () => Object.assign(() => {}, { enabled: false }),
  inherits(child, parent) {
    Object.defineProperty(child, "super_", { value: parent, writable: true, configurable: true });
    Object.setPrototypeOf(child.prototype, parent.prototype);
  },
  isArray: Array.isArray,
  isDeepStrictEqual: (one, other) => require("assert/internal/util/comparisons").isDeepStrictEqual(one, other),
  parseArgs: (config) => require("parseargs/index").parseArgs(config),
  styleText: (style, text) =>
    [style].flat().reduceRight((text, name) => `\u001b[${STYLES[name][0]}m${text}\u001b[${STYLES[name][1]}m`, text),
  toUSVString: (text) => String(text).toWellFormed(),
  get TextEncoder() {
    return TextEncoder;
  },
  get TextDecoder() {
    return TextDecoder;
  },
};
