// `fetch` and its classes, and the requests below `node:http`. The host sends what the operator's
// grant allows.
const inspectSymbol = Symbol.for("nodejs.util.inspect.custom");
// The codes of errors, by the kinds of wasi:http's errors.
const CODES = {
  denied: "EACCES",
  name: "ENOTFOUND",
  connection: "ECONNREFUSED",
  timeout: "ETIMEDOUT",
  certificate: "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  protocol: "EPROTO",
  limit: "EDQUOT",
  other: "ECONNRESET",
};
// The maximum number of redirects to follow.
const MAX_REDIRECTS = 20;
// The requests that have not ended, by number.
const listeners = new Map();

// Returns the error of a request, and notes a denial for the answer.
function requestError({ kind, message }, url) {
  if (kind === "denied") {
    const origin = new URL(url).origin;
    const granted = native.environment.SKILLHOST_NETWORK?.split("\n").filter(Boolean) ?? [];
    message = granted.length > 0
      ? `network access to ${origin} is not granted to this tool; granted are: ${granted.join(", ")}`
      : `network access is not granted to this tool; an operator can allow ${origin} in the tool's grant, with \`network\``;
    native.note(message);
  }
  return Object.assign(new Error(message), { code: CODES[kind] });
}

// Begins a request, and returns its number. `listener` has functions: `head` gets the status and the
// headers, `chunk` and `end` what `native.httpRead` asked for, and `failed` an error.
function send(method, url, headers, body, listener) {
  const { number, ...error } = native.httpSend(method, url, headers, body);
  if (number === undefined) {
    throw requestError(error, url);
  }
  listeners.set(number, { ...listener, url });
  return number;
}

// Passes an event of a request to its listener.
function handle({ number, kind, message, status, headers, chunk }) {
  const listener = listeners.get(number);
  if (status !== undefined) {
    const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]]] : []));
    listener?.head(status, pairs);
  } else if (chunk) {
    listener?.chunk(new Uint8Array(chunk));
  } else {
    listeners.delete(number);
    kind ? listener?.failed(requestError({ kind, message }, listener.url)) : listener?.end();
  }
}

function cancel(number) {
  native.httpCancel(number);
  listeners.delete(number);
}

class Headers {
  #values = new Map();
  constructor(init = []) {
    const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const [name, value] of pairs) {
      this.append(name, value);
    }
  }
  static #key(name) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) {
      throw new TypeError(`Headers.append: "${name}" is an invalid header name.`);
    }
    return `${name}`.toLowerCase();
  }
  append(name, value) {
    const key = Headers.#key(name);
    const text = `${value}`.trim();
    if (/[\0\r\n]/.test(text)) {
      throw new TypeError(`Headers.append: "${text}" is an invalid header value.`);
    }
    this.#values.set(key, [...(this.#values.get(key) ?? []), text]);
  }
  set(name, value) {
    this.delete(name);
    this.append(name, value);
  }
  delete(name) {
    this.#values.delete(Headers.#key(name));
  }
  get(name) {
    return this.#values.get(Headers.#key(name))?.join(", ") ?? null;
  }
  has(name) {
    return this.#values.has(Headers.#key(name));
  }
  getSetCookie() {
    return [...(this.#values.get("set-cookie") ?? [])];
  }
  *entries() {
    for (const key of [...this.#values.keys()].sort()) {
      const values = this.#values.get(key);
      yield* key === "set-cookie" ? values.map((value) => [key, value]) : [[key, values.join(", ")]];
    }
  }
  *keys() {
    for (const [key] of this) {
      yield key;
    }
  }
  *values() {
    for (const [, value] of this) {
      yield value;
    }
  }
  forEach(callback, self) {
    for (const [key, value] of this) {
      callback.call(self, value, key, this);
    }
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  [inspectSymbol](depth, options, inspect) {
    return `Headers ${inspect(Object.fromEntries(this), options)}`;
  }
}

class Blob {
  #bytes;
  constructor(parts = [], { type = "" } = {}) {
    this.#bytes = Buffer.concat([...parts].map((part) => (part instanceof Blob ? part.#bytes : bytesOf(part))));
    this.type = type.toLowerCase();
  }
  get size() {
    return this.#bytes.length;
  }
  async bytes() {
    return new Uint8Array(this.#bytes);
  }
  async arrayBuffer() {
    return new Uint8Array(this.#bytes).buffer;
  }
  async text() {
    return this.#bytes.toString();
  }
  slice(start, end, type) {
    return new Blob([this.#bytes.subarray(start, end)], { type });
  }
  stream() {
    return new BodyStream(once(new Uint8Array(this.#bytes)));
  }
  static _bytes(blob) {
    return blob.#bytes;
  }
}
class File extends Blob {
  constructor(parts, name, options) {
    super(parts, options);
    this.name = name;
    this.lastModified = options?.lastModified ?? Date.now();
  }
}

class FormData {
  #pairs = [];
  append(name, value, filename) {
    if (value instanceof Blob) {
      value = new File([value], filename ?? value.name ?? "blob", { type: value.type });
    }
    this.#pairs.push([`${name}`, value instanceof File ? value : `${value}`]);
  }
  set(name, value, filename) {
    const at = this.#pairs.findIndex(([key]) => key === name);
    this.delete(name);
    this.append(name, value, filename);
    // The first pair of the name keeps its place.
    if (at >= 0) {
      this.#pairs.splice(at, 0, this.#pairs.pop());
    }
  }
  delete(name) {
    this.#pairs = this.#pairs.filter(([key]) => key !== name);
  }
  get(name) {
    return this.getAll(name)[0] ?? null;
  }
  getAll(name) {
    return this.#pairs.filter(([key]) => key === name).map(([, value]) => value);
  }
  has(name) {
    return this.getAll(name).length > 0;
  }
  entries() {
    return this.#pairs.values();
  }
  keys() {
    return this.#pairs.map(([key]) => key).values();
  }
  values() {
    return this.#pairs.map(([, value]) => value).values();
  }
  forEach(callback, self) {
    this.#pairs.forEach(([key, value]) => callback.call(self, value, key, this));
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}

// Returns the bytes and the content type of a form.
function multipart(form) {
  const boundary = `----formdata-skillhost-${require("crypto").randomUUID()}`;
  const escape = (text) => text.replace(/\r\n|\r|\n/g, "%0D%0A").replaceAll('"', "%22");
  const parts = [];
  for (const [name, value] of form) {
    const isFile = value instanceof File;
    const file = isFile ? `; filename="${escape(value.name)}"\r\nContent-Type: ${value.type || "application/octet-stream"}` : "";
    parts.push(`--${boundary}\r\nContent-Disposition: form-data; name="${escape(name)}"${file}\r\n\r\n`);
    parts.push(isFile ? value : value.replace(/\r\n|\r|\n/g, "\r\n"), "\r\n");
  }
  return [Blob._bytes(new Blob([...parts, `--${boundary}--\r\n`])), `multipart/form-data; boundary=${boundary}`];
}

function bytesOf(value) {
  if (value instanceof ArrayBuffer) {
    return new Uint8Array(value);
  }
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new TextEncoder().encode(`${value}`);
}

// Returns a function that returns the next chunk of `bytes`, or null.
function once(bytes) {
  let rest = bytes?.length > 0 ? bytes : null;
  return async () => {
    const chunk = rest;
    rest = null;
    return chunk;
  };
}

// The part of `ReadableStream` that a body needs. `pull` returns a promise of the next chunk, or of null.
class BodyStream {
  #pull;
  #cancel;
  locked = false;
  constructor(pull, cancel = () => {}) {
    this.#pull = pull;
    this.#cancel = cancel;
  }
  getReader() {
    if (this.locked) {
      throw new TypeError("Invalid state: ReadableStream is locked");
    }
    this.locked = true;
    let isDone = false;
    return {
      read: async () => {
        const value = isDone ? null : await this.#pull();
        isDone = value === null;
        return isDone ? { done: true, value: undefined } : { done: false, value };
      },
      releaseLock: () => {
        this.locked = false;
      },
      cancel: async () => {
        isDone = true;
        this.#cancel();
      },
    };
  }
  async cancel() {
    this.#cancel();
  }
  async *[Symbol.asyncIterator]() {
    const reader = this.getReader();
    let isDone = false;
    try {
      for (let result; !(result = await reader.read()).done; ) {
        yield result.value;
      }
      isDone = true;
    } finally {
      isDone || (await reader.cancel());
      reader.releaseLock();
    }
  }
  values() {
    return this[Symbol.asyncIterator]();
  }
  get [Symbol.toStringTag]() {
    return "ReadableStream";
  }
}

// Returns the stream of a body, and its content type.
function extract(body) {
  if (body == null) {
    return [null];
  }
  if (body instanceof BodyStream) {
    return [body];
  }
  if (body instanceof FormData) {
    const [bytes, type] = multipart(body);
    return [new BodyStream(once(bytes)), type];
  }
  if (body instanceof Blob) {
    return [body.stream(), body.type || undefined];
  }
  if (body instanceof URLSearchParams) {
    return [new BodyStream(once(bytesOf(body))), "application/x-www-form-urlencoded;charset=UTF-8"];
  }
  if (typeof body === "object" && body[Symbol.asyncIterator]) {
    const chunks = body[Symbol.asyncIterator]();
    const pull = async () => {
      const { done, value } = await chunks.next();
      return done ? null : bytesOf(value);
    };
    return [new BodyStream(pull)];
  }
  const isBytes = body instanceof ArrayBuffer || ArrayBuffer.isView(body);
  return [new BodyStream(once(bytesOf(body))), isBytes ? undefined : "text/plain;charset=UTF-8"];
}

// What requests and responses have in common.
class Body {
  bodyUsed = false;
  constructor(body, headers) {
    const [stream, type] = extract(body);
    this.body = stream;
    this.headers = new Headers(headers);
    if (type && !this.headers.has("content-type")) {
      this.headers.set("content-type", type);
    }
  }
  async bytes() {
    if (this.bodyUsed || this.body?.locked) {
      throw new TypeError("Body is unusable: Body has already been read");
    }
    this.bodyUsed = this.body !== null;
    const chunks = [];
    for await (const chunk of this.body ?? []) {
      chunks.push(chunk);
    }
    return new Uint8Array(Buffer.concat(chunks));
  }
  async arrayBuffer() {
    return (await this.bytes()).buffer;
  }
  async text() {
    return new TextDecoder().decode(await this.bytes());
  }
  async json() {
    return JSON.parse(await this.text());
  }
  async blob() {
    return new Blob([await this.bytes()], { type: this.headers.get("content-type") ?? "" });
  }
  async formData() {
    throw require("unsupported").error("Body.formData", "ENGINE");
  }
  // Returns two streams of the body, which read it once.
  _split() {
    if (this.bodyUsed) {
      throw new TypeError("Body has already been consumed.");
    }
    if (this.body === null) {
      return null;
    }
    const whole = this.body;
    let bytes;
    const read = () => (bytes ??= new Body(whole, []).bytes());
    const copy = () => {
      let next;
      return new BodyStream(async () => (next ??= once(await read()))());
    };
    this.body = copy();
    return copy();
  }
}

class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    const method = `${init.method ?? from?.method ?? "GET"}`;
    const body = init.body ?? from?._split();
    if (body != null && /^(get|head)$/i.test(method)) {
      throw new TypeError("Request with GET/HEAD method cannot have body.");
    }
    super(body, init.headers ?? from?.headers);
    let url;
    try {
      url = new URL(from?.url ?? input);
    } catch (cause) {
      throw new TypeError(`Failed to parse URL from ${input}`, { cause });
    }
    if (url.username || url.password) {
      throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${input}`);
    }
    this.method = /^(delete|get|head|options|post|put)$/i.test(method) ? method.toUpperCase() : method;
    this.url = url.href;
    this.redirect = init.redirect ?? from?.redirect ?? "follow";
    this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
  }
  clone() {
    return new Request(this);
  }
}

class Response extends Body {
  constructor(body, { status = 200, statusText = "", headers } = {}) {
    super(body, headers);
    Object.assign(this, { status, statusText, ok: status >= 200 && status < 300, url: "", redirected: false, type: "default" });
  }
  clone() {
    const copy = new Response(this._split(), this);
    return Object.assign(copy, { url: this.url, redirected: this.redirected, type: this.type });
  }
  static json(value, init = {}) {
    const headers = new Headers(init.headers);
    headers.has("content-type") || headers.set("content-type", "application/json");
    return new Response(JSON.stringify(value), { ...init, headers });
  }
  static error() {
    return Object.assign(new Response(null), { status: 0, ok: false, type: "error" });
  }
  [inspectSymbol](depth, options, inspect) {
    const { status, statusText, headers, body, bodyUsed, ok, redirected, type, url } = this;
    return `Response ${inspect({ status, statusText, headers, body, bodyUsed, ok, redirected, type, url }, options)}`;
  }
}

// Sends one request, and returns a promise of its response.
function exchange(method, url, headers, bytes, signal) {
  return new Promise((resolve, reject) => {
    // The read that waits for a chunk.
    let reader;
    let hasEnded = false;
    let error;
    const fail = (cause) => {
      error = cause;
      reject(cause);
      reader?.reject(cause);
    };
    const pull = () => new Promise((resolve, reject) => {
      if (error) {
        reject(error);
      } else if (hasEnded) {
        resolve(null);
      } else {
        reader = { resolve, reject };
        native.httpRead(number);
      }
    });
    const end = () => {
      hasEnded = true;
      signal.removeEventListener("abort", abort);
    };
    const number = send(method, url, headers, bytes, {
      head(status, pairs) {
        const isEmpty = method === "HEAD" || [204, 205, 304].includes(status);
        const stop = () => {
          end();
          cancel(number);
        };
        isEmpty && stop();
        const body = isEmpty ? null : new BodyStream(pull, stop);
        const statusText = require("http").STATUS_CODES[status] ?? "";
        const response = new Response(body, { status, statusText, headers: pairs });
        resolve(Object.assign(response, { url, type: "basic" }));
      },
      chunk: (chunk) => reader.resolve(chunk),
      end() {
        end();
        reader.resolve(null);
      },
      failed(cause) {
        end();
        fail(new TypeError(reader ? "terminated" : "fetch failed", { cause }));
      },
    });
    const abort = () => {
      cancel(number);
      fail(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
  });
}

async function fetch(input, init) {
  const request = new Request(input, init);
  const { signal } = request;
  let { method, url } = request;
  signal.throwIfAborted();
  let bytes = request.body && (await request.bytes());
  const headers = new Headers([["accept", "*/*"], ["user-agent", "node"]]);
  request.headers.forEach((value, name) => headers.set(name, value));
  for (let redirects = 0; ; redirects++) {
    if (!/^https?:/.test(url)) {
      throw new TypeError("fetch failed", { cause: new Error("unknown scheme") });
    }
    let response;
    try {
      const sent = bytes ?? (["POST", "PUT", "PATCH"].includes(method) ? new Uint8Array() : undefined);
      const target = new URL(url);
      target.hash = "";
      response = await exchange(method, target.href, [...headers].flat(), sent, signal);
    } catch (error) {
      throw signal.aborted || error instanceof TypeError ? error : new TypeError("fetch failed", { cause: error });
    }
    const location = response.headers.get("location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null || request.redirect === "manual") {
      return Object.assign(response, { url, redirected: redirects > 0 });
    }
    response.body?.cancel();
    if (request.redirect === "error" || redirects === MAX_REDIRECTS) {
      const cause = new Error(request.redirect === "error" ? "unexpected redirect" : "redirect count exceeded");
      throw new TypeError("fetch failed", { cause });
    }
    const target = new URL(location, url);
    if (target.origin !== new URL(url).origin) {
      ["authorization", "cookie", "proxy-authorization", "host"].forEach((name) => headers.delete(name));
    }
    const isRewritten = response.status === 303 ? !["GET", "HEAD"].includes(method) : response.status < 303 && method === "POST";
    if (isRewritten) {
      [method, bytes] = ["GET", null];
      ["content-type", "content-length", "content-encoding", "content-language", "content-location"].forEach((name) => headers.delete(name));
    }
    url = target.href;
  }
}

module.exports = { fetch, Headers, Request, Response, Blob, File, FormData, send, handle, cancel, bytesOf };
