// The browser APIs that Node has: encoders, aborting, cloning, base64 and `performance`.
class TextEncoder {
  encoding = "utf-8";
  encode(text = "") {
    return new Uint8Array(native.encode(`${text}`.toWellFormed()));
  }
  encodeInto(text, target) {
    const bytes = this.encode(text);
    let written = Math.min(bytes.length, target.length);
    // Write no part of a character.
    while (written < bytes.length && (bytes[written] & 0xc0) === 0x80) {
      written -= 1;
    }
    target.set(bytes.subarray(0, written));
    return { read: native.decode(bytes.slice(0, written), false).length, written };
  }
}

const DECODER_NAMES = {
  utf8: "utf-8", "unicode-1-1-utf-8": "utf-8", "utf-16": "utf-16le", "ucs-2": "utf-16le",
  latin1: "windows-1252", l1: "windows-1252", ascii: "windows-1252", "us-ascii": "windows-1252",
  "iso-8859-1": "windows-1252", "iso8859-1": "windows-1252", cp1252: "windows-1252",
};
// The characters of windows-1252 from 0x80 to 0x9f.
const WINDOWS_CHARACTERS = "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ";
const toBytes = (data) => (ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data));

class TextDecoder {
  constructor(label = "utf-8", options = {}) {
    const name = `${label}`.trim().toLowerCase();
    this.encoding = DECODER_NAMES[name] ?? name;
    this.fatal = options.fatal ?? false;
    this.ignoreBOM = options.ignoreBOM ?? false;
    this._rest = [];
    if (!["utf-8", "utf-16le", "windows-1252"].includes(this.encoding)) {
      throw Object.assign(new RangeError(`The "${label}" encoding is not supported`), { code: "ERR_ENCODING_NOT_SUPPORTED" });
    }
  }
  decode(data = [], { stream = false } = {}) {
    const added = toBytes(data);
    const bytes = new Uint8Array(this._rest.length + added.length);
    bytes.set(this._rest);
    bytes.set(added, this._rest.length);
    const incomplete = stream ? require("streams").incompleteLength(bytes, this.encoding.replace("-", "")) : 0;
    const end = bytes.length - incomplete;
    // A copy, because the caller may reuse its buffer.
    this._rest = bytes.slice(end);
    let text = this._decodeAll(bytes.subarray(0, end));
    if (text === undefined) {
      this._rest = [];
      this._hasStarted = false;
      throw Object.assign(new TypeError(`The encoded data was not valid for encoding ${this.encoding}`), { code: "ERR_ENCODING_INVALID_ENCODED_DATA" });
    }
    const isStart = !this._hasStarted;
    this._hasStarted = stream && (this._hasStarted || text !== "");
    if (isStart && !this.ignoreBOM && this.encoding !== "windows-1252" && text.startsWith("\ufeff")) {
      text = text.slice(1);
    }
    return text;
  }
  // Returns the text, or undefined if invalid bytes are fatal.
  _decodeAll(bytes) {
    if (this.encoding === "utf-8") {
      return native.decode(bytes, this.fatal);
    }
    const buffer = Buffer.from(bytes);
    if (this.encoding === "windows-1252") {
      return buffer.toString("latin1").replace(/[\x80-\x9f]/g, (character) => WINDOWS_CHARACTERS[character.charCodeAt() - 0x80]);
    }
    const text = buffer.toString("utf16le") + (bytes.length % 2 > 0 ? "\ud800" : "");
    return this.fatal && !text.isWellFormed() ? undefined : text.toWellFormed();
  }
}

class DOMException extends Error {
  constructor(message = "", name = "Error") {
    super(message);
    Object.defineProperty(this, "name", { value: name, configurable: true });
    this.code = { InvalidCharacterError: 5, AbortError: 20, DataCloneError: 25, TimeoutError: 23 }[name] ?? 0;
  }
}

class AbortSignal extends (require("events")) {
  aborted = false;
  reason = undefined;
  onabort = null;
  constructor() {
    super();
    // Many requests may listen to one signal.
    this.setMaxListeners(0);
  }
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
  static any(signals) {
    const controller = new AbortController();
    for (const signal of signals) {
      signal.aborted
        ? controller.abort(signal.reason)
        : signal.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
    }
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

function atob(text) {
  const letters = `${text}`.replace(/[\t\n\f\r ]/g, "");
  const digits = letters.length % 4 === 0 ? letters.replace(/==?$/, "") : letters;
  if (digits.length % 4 === 1 || /[^A-Za-z\d+/]/.test(digits)) {
    throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
  }
  return Buffer.from(digits, "base64").toString("latin1");
}

function btoa(text) {
  if (/[^\0-\xff]/.test(text)) {
    throw new DOMException("Invalid character", "InvalidCharacterError");
  }
  return Buffer.from(`${text}`, "latin1").toString("base64");
}

module.exports = {
  TextEncoder,
  TextDecoder,
  DOMException,
  AbortController,
  AbortSignal,
  structuredClone: (value, options) => structuredClone(value, options),
  atob,
  btoa,
  performance: {
    now: () => native.clock(),
    timeOrigin: Date.now() - native.clock(),
    mark() {},
    measure() {},
    toJSON: () => ({}),
  },
};
