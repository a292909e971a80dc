// The client of `node:http` and `node:https`, without agents and sockets.
const Events = require("events");
const { send, cancel, bytesOf } = require("fetch");

const STATUS_CODES = {
  100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted",
  203: "Non-Authoritative Information", 204: "No Content", 205: "Reset Content", 206: "Partial Content",
  300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified",
  307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
  402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
  408: "Request Timeout", 409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed",
  413: "Payload Too Large", 414: "URI Too Long", 415: "Unsupported Media Type", 416: "Range Not Satisfiable",
  418: "I'm a Teapot", 422: "Unprocessable Entity", 423: "Locked", 425: "Too Early", 426: "Upgrade Required",
  428: "Precondition Required", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons", 500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway",
  503: "Service Unavailable", 504: "Gateway Timeout", 505: "HTTP Version Not Supported",
};

class IncomingMessage extends Events {
  constructor(number, status, pairs) {
    super();
    this.statusCode = status;
    this.statusMessage = STATUS_CODES[status] ?? "";
    this.httpVersion = "1.1";
    this.complete = false;
    this.destroyed = false;
    this.headers = {};
    this.rawHeaders = pairs.flat();
    for (const [name, value] of pairs) {
      const known = this.headers[name];
      if (name === "set-cookie") {
        this.headers[name] = [...(known ?? []), value];
      } else {
        this.headers[name] = known === undefined ? value : `${known}, ${value}`;
      }
    }
    this._number = number;
    this._isFlowing = false;
    this._isReading = false;
  }
  setEncoding(encoding) {
    this._decoder = new (require("streams").StringDecoder)(encoding);
    return this;
  }
  on(name, listener) {
    super.on(name, listener);
    name === "data" && this.resume();
    return this;
  }
  resume() {
    this._isFlowing = true;
    this._read();
    return this;
  }
  pause() {
    this._isFlowing = false;
    return this;
  }
  _read() {
    if (this._isFlowing && !this._isReading && !this.complete && !this.destroyed) {
      this._isReading = true;
      native.httpRead(this._number);
    }
  }
  _chunk(bytes) {
    this._isReading = false;
    const chunk = Buffer.from(bytes);
    const data = this._decoder ? this._decoder.write(chunk) : chunk;
    data.length > 0 && this.emit("data", data);
    this._read();
  }
  _end() {
    const rest = this._decoder?.end();
    rest && this.emit("data", rest);
    this.complete = true;
    this.emit("end");
    this.emit("close");
  }
  destroy(error) {
    if (!this.destroyed) {
      this.destroyed = true;
      this.complete || cancel(this._number);
      setImmediate(() => {
        error && this.emit("error", error);
        this.emit("close");
      });
    }
    return this;
  }
  pipe(target) {
    this.on("data", (chunk) => target.write(chunk));
    this.on("end", () => target.end());
    return target;
  }
  async *[Symbol.asyncIterator]() {
    const chunks = [];
    let wake = () => {};
    let end;
    const finish = (error) => {
      end ??= { error };
      wake();
    };
    this.on("end", () => finish()).on("error", finish);
    this.on("data", (chunk) => {
      chunks.push(chunk);
      this.pause();
      wake();
    });
    for (;;) {
      if (chunks.length > 0) {
        yield chunks.shift();
      } else if (end) {
        if (end.error) {
          throw end.error;
        }
        return;
      } else {
        await new Promise((resolve) => {
          wake = resolve;
          this.resume();
        });
      }
    }
  }
}

class ClientRequest extends Events {
  constructor(url, { method = "GET", headers = {}, auth, timeout, signal } = {}) {
    super();
    this.method = method.toUpperCase();
    this.path = url.pathname + url.search;
    this.host = url.hostname;
    this.protocol = url.protocol;
    this.destroyed = false;
    this._url = url.href;
    this._headers = new Map();
    this._chunks = [];
    Object.entries(headers).forEach(([name, value]) => this.setHeader(name, value));
    if (auth !== undefined) {
      this.setHeader("authorization", `Basic ${Buffer.from(auth).toString("base64")}`);
    }
    timeout !== undefined && this.setTimeout(timeout);
    signal?.addEventListener("abort", () => this.destroy(signal.reason), { once: true });
  }
  setHeader(name, value) {
    this._headers.set(name.toLowerCase(), [name, value]);
    return this;
  }
  getHeader(name) {
    return this._headers.get(name.toLowerCase())?.[1];
  }
  removeHeader(name) {
    this._headers.delete(name.toLowerCase());
  }
  setTimeout(delay, listener) {
    listener && this.once("timeout", listener);
    clearTimeout(this._timer);
    this._timer = delay > 0 ? setTimeout(() => this.emit("timeout"), delay) : undefined;
    return this;
  }
  write(data, encoding, callback) {
    this._chunks.push(typeof data === "string" ? Buffer.from(data, typeof encoding === "string" ? encoding : "utf8") : bytesOf(data));
    callback = typeof encoding === "function" ? encoding : callback;
    callback && setImmediate(callback);
    return true;
  }
  end(data, encoding, callback) {
    callback = [data, encoding, callback].find((argument) => typeof argument === "function");
    if (data != null && typeof data !== "function") {
      this.write(data, encoding);
    }
    callback && this.once("finish", callback);
    setImmediate(() => this._send());
    return this;
  }
  _send() {
    if (this.destroyed) {
      return;
    }
    // The host sets these.
    ["host", "connection", "content-length", "transfer-encoding"].forEach((name) => this.removeHeader(name));
    const headers = [...this._headers.values()].flatMap(([name, value]) => [value].flat().flatMap((one) => [name, `${one}`]));
    const hasBody = this._chunks.length > 0 || /^(POST|PUT|PATCH)$/.test(this.method);
    const body = hasBody ? new Uint8Array(Buffer.concat(this._chunks)) : undefined;
    let response;
    try {
      this._number = send(this.method, this._url, headers, body, {
        head: (status, pairs) => {
          response = this.res = new IncomingMessage(this._number, status, pairs);
          if (!this.emit("response", response)) {
            response.resume();
          }
        },
        chunk: (chunk) => response._chunk(chunk),
        end: () => {
          clearTimeout(this._timer);
          response._end();
        },
        failed: (error) => this._fail(error, response),
      });
      this.emit("finish");
    } catch (error) {
      this._fail(error);
    }
  }
  _fail(error, response) {
    clearTimeout(this._timer);
    this.destroyed = true;
    (response ?? this).emit("error", error);
    this.emit("close");
  }
  destroy(error) {
    if (!this.destroyed) {
      this.destroyed = true;
      clearTimeout(this._timer);
      this._number !== undefined && cancel(this._number);
      const cause = error ?? Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
      setImmediate(() => {
        this.res ? error && this.res.emit("error", error) : this.emit("error", cause);
        this.emit("close");
      });
    }
    return this;
  }
  abort() {
    this.destroy();
  }
  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}
}

// Returns the address that options name.
function addressOf(options, protocol) {
  const url = new URL(`${options.protocol ?? protocol}//localhost`);
  url.hostname = options.hostname ?? options.host?.replace(/:\d+$/, "") ?? "localhost";
  url.port = options.port ?? /:(\d+)$/.exec(options.host ?? "")?.[1] ?? "";
  return new URL(options.path ?? "/", url);
}

function module_(protocol) {
  const request = (input, options, callback) => {
    if (typeof options === "function") {
      [options, callback] = [undefined, options];
    }
    const isAddress = typeof input === "string" || input instanceof URL;
    const settings = isAddress ? (options ?? {}) : input;
    const url = isAddress ? new URL(input) : addressOf(settings, protocol);
    if (url.protocol !== protocol) {
      const error = new TypeError(`Protocol "${url.protocol}" not supported. Expected "${protocol}"`);
      throw Object.assign(error, { code: "ERR_INVALID_PROTOCOL" });
    }
    const auth = settings.auth ?? (url.username ? `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` : undefined);
    [url.username, url.password, url.hash] = ["", "", ""];
    const it = new ClientRequest(url, { ...settings, auth });
    callback && it.once("response", callback);
    return it;
  };
  const { throwing } = require("unsupported");
  return {
    request,
    get: (...args) => request(...args).end(),
    ...throwing(protocol.slice(0, -1), ["createServer", "Server"], "SERVER"),
    Agent: class Agent {
      destroy() {}
    },
    globalAgent: {},
    ClientRequest,
    IncomingMessage,
    METHODS: ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"],
    STATUS_CODES,
  };
}

module.exports = { module: module_, STATUS_CODES };
