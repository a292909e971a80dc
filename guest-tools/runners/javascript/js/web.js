// The browser APIs that Node has: encoders, aborting, cloning, base64 and `performance`.
class TextEncoder {
  encoding = "utf-8";
  encode(text = "") {
    return new Uint8Array(native.encode(`${text}`.toWellFormed()));
  }
  encodeInto(text, target) {
    const bytes = this.encode(text).subarray(0, target.length);
    target.set(bytes);
    return { read: text.length, written: bytes.length };
  }
}

class TextDecoder {
  constructor(label = "utf-8", options = {}) {
    this.encoding = label.toLowerCase().replace(/^utf8$/, "utf-8").replace(/^(utf-16|utf16le)$/, "utf-16le");
    this.fatal = options.fatal ?? false;
    this.ignoreBOM = options.ignoreBOM ?? false;
    if (!["utf-8", "utf-16le", "latin1", "iso-8859-1", "windows-1252", "ascii"].includes(this.encoding)) {
      throw Object.assign(new RangeError(`The "${label}" encoding is not supported`), { code: "ERR_ENCODING_NOT_SUPPORTED" });
    }
  }
  decode(data, options) {
    const bytes = data === undefined ? new Uint8Array() : ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
    if (this.encoding !== "utf-8") {
      return Buffer.from(bytes).toString(this.encoding === "utf-16le" ? "utf16le" : "latin1");
    }
    if (options?.stream || this._decoder) {
      this._decoder ??= new (require("streams").StringDecoder)();
      const text = this._decoder.write(bytes);
      if (options?.stream) {
        return text;
      }
      const rest = this._decoder.end();
      this._decoder = undefined;
      return text + rest;
    }
    const text = native.decode(bytes, this.fatal);
    if (text === undefined) {
      throw Object.assign(new TypeError("The encoded data was not valid for encoding utf-8"), { code: "ERR_ENCODING_INVALID_ENCODED_DATA" });
    }
    return this.ignoreBOM ? text : text.replace(/^\ufeff/, "");
  }
}

class DOMException extends Error {
  constructor(message = "", name = "Error") {
    super(message);
    Object.defineProperty(this, "name", { value: name, configurable: true });
    this.code = { AbortError: 20, DataCloneError: 25, TimeoutError: 23 }[name] ?? 0;
  }
}

class AbortSignal extends (require("events")) {
  aborted = false;
  reason = undefined;
  onabort = null;
  addEventListener(name, listener, options) {
    options?.once ? this.once(name, listener) : this.on(name, listener);
  }
  removeEventListener(name, listener) {
    this.off(name, listener);
  }
  throwIfAborted() {
    if (this.aborted) {
      throw this.reason;
    }
  }
  static abort(reason) {
    const controller = new AbortController();
    controller.abort(reason);
    return controller.signal;
  }
  static timeout(delay) {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")), delay).unref();
    return controller.signal;
  }
}
class AbortController {
  signal = new AbortSignal();
  abort(reason = new DOMException("This operation was aborted", "AbortError")) {
    if (!this.signal.aborted) {
      Object.assign(this.signal, { aborted: true, reason });
      const event = { type: "abort", target: this.signal };
      this.signal.onabort?.(event);
      this.signal.emit("abort", event);
    }
  }
}

function structuredClone(value, options, seen = new Map()) {
  if (typeof value === "function" || typeof value === "symbol") {
    throw new DOMException(`${String(value)} could not be cloned.`, "DataCloneError");
  }
  if (value === null || typeof value !== "object") {
    return value;
  }
  if (seen.has(value)) {
    return seen.get(value);
  }
  const remember = (copy) => {
    seen.set(value, copy);
    return copy;
  };
  const clone = (inner) => structuredClone(inner, options, seen);
  if (value instanceof Date) {
    return remember(new Date(value));
  }
  if (value instanceof RegExp) {
    return remember(new RegExp(value.source, value.flags));
  }
  if (value instanceof Map) {
    const copy = remember(new Map());
    value.forEach((inner, key) => copy.set(clone(key), clone(inner)));
    return copy;
  }
  if (value instanceof Set) {
    const copy = remember(new Set());
    value.forEach((inner) => copy.add(clone(inner)));
    return copy;
  }
  if (value instanceof ArrayBuffer) {
    return remember(value.slice(0));
  }
  if (ArrayBuffer.isView(value)) {
    const buffer = value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
    const Kind = value instanceof Uint8Array ? Uint8Array : value.constructor;
    return remember(new Kind(buffer));
  }
  if (value instanceof Error) {
    const Kind = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[value.name] ?? Error;
    const copy = remember(new Kind(value.message));
    copy.stack = value.stack;
    return copy;
  }
  if (value instanceof Number || value instanceof String || value instanceof Boolean) {
    return remember(Object(value.valueOf()));
  }
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) {
    throw new DOMException(`#<${value.constructor.name}> could not be cloned.`, "DataCloneError");
  }
  const copy = remember(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) {
    copy[key] = clone(value[key]);
  }
  return copy;
}

module.exports = {
  TextEncoder,
  TextDecoder,
  DOMException,
  AbortController,
  AbortSignal,
  structuredClone: (value, options) => structuredClone(value, options),
  atob: (text) => Buffer.from(`${text}`, "base64").toString("latin1"),
  btoa: (text) => Buffer.from(`${text}`, "latin1").toString("base64"),
  performance: {
    now: () => native.clock(),
    timeOrigin: Date.now() - native.clock(),
    mark() {},
    measure() {},
    toJSON: () => ({}),
  },
};
