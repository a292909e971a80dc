// `url`: the classes `URL` and `URLSearchParams`, and Node's older functions.
const PARTS = ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash", "origin"];
const inspectSymbol = Symbol.for("nodejs.util.inspect.custom");

const decode = (text) => native.decode(percentDecoded(text.replaceAll("+", " ")), false);
function percentDecoded(text) {
  const PERCENT = 37;
  const decoded = [];
  const bytes = new Uint8Array(native.encode(text.toWellFormed()));
  for (let at = 0; at < bytes.length; at += 1) {
    const digits = bytes[at] === PERCENT && String.fromCharCode(bytes[at + 1], bytes[at + 2]);
    if (digits && /^[\da-f]{2}$/i.test(digits)) {
      decoded.push(parseInt(digits, 16));
      at += 2;
    } else {
      decoded.push(bytes[at]);
    }
  }
  return new Uint8Array(decoded);
}
const encode = (text) =>
  encodeURIComponent(text.toWellFormed()).replaceAll("%20", "+").replace(/[!'()~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

class URLSearchParams {
  #pairs = [];
  #onChange;
  constructor(init = "", onChange) {
    this.#onChange = onChange;
    if (typeof init === "object" && init !== null) {
      const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      this.#pairs = [...pairs].map(([key, value]) => [`${key}`, `${value}`]);
    } else {
      this._read(`${init}`);
    }
    Object.defineProperty(this, "_read", { value: (text) => this.#read(text), enumerable: false });
  }
  _read(text) {
    this.#read(text);
  }
  #read(text) {
    this.#pairs = text.replace(/^\?/, "").split("&").filter(Boolean).map((pair) => {
      const at = pair.indexOf("=");
      return at < 0 ? [decode(pair), ""] : [decode(pair.slice(0, at)), decode(pair.slice(at + 1))];
    });
  }
  #notify() {
    this.#onChange?.(this.toString());
  }
  get size() {
    return this.#pairs.length;
  }
  append(key, value) {
    this.#pairs.push([`${key}`, `${value}`]);
    this.#notify();
  }
  delete(key, value) {
    this.#pairs = this.#pairs.filter(([name, current]) => name !== `${key}` || (value !== undefined && current !== `${value}`));
    this.#notify();
  }
  get(key) {
    return this.#pairs.find(([name]) => name === `${key}`)?.[1] ?? null;
  }
  getAll(key) {
    return this.#pairs.filter(([name]) => name === `${key}`).map(([, value]) => value);
  }
  has(key, value) {
    return this.#pairs.some(([name, current]) => name === `${key}` && (value === undefined || current === `${value}`));
  }
  set(key, value) {
    const first = this.#pairs.find(([name]) => name === `${key}`);
    if (first) {
      first[1] = `${value}`;
      this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== `${key}`);
    } else {
      this.#pairs.push([`${key}`, `${value}`]);
    }
    this.#notify();
  }
  sort() {
    this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.#notify();
  }
  forEach(callback, self) {
    this.#pairs.forEach(([key, value]) => callback.call(self, value, key, this));
  }
  *entries() {
    yield* this.#pairs.map((pair) => [...pair]);
  }
  *keys() {
    yield* this.#pairs.map(([key]) => key);
  }
  *values() {
    yield* this.#pairs.map(([, value]) => value);
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return this.#pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join("&");
  }
  [inspectSymbol](depth, options, inspect) {
    const pairs = this.#pairs.map(([key, value]) => `${inspect(key, options)} => ${inspect(value, options)}`);
    return pairs.length === 0 ? "URLSearchParams {}" : `URLSearchParams { ${pairs.join(", ")} }`;
  }
}
Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: "URLSearchParams", configurable: true });

class URL {
  #parts;
  #params;
  constructor(address, base) {
    this.#parts = native.parseUrl(`${address}`.toWellFormed(), base === undefined ? undefined : `${base}`);
    if (!this.#parts) {
      throw Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL", input: `${address}`, ...(base !== undefined && { base: `${base}` }) });
    }
  }
  static canParse(address, base) {
    return native.parseUrl(`${address}`, base === undefined ? undefined : `${base}`) !== undefined;
  }
  static parse(address, base) {
    return URL.canParse(address, base) ? new URL(address, base) : null;
  }
  get searchParams() {
    this.#params ??= new URLSearchParams(this.search, (text) => {
      this.#parts = native.changeUrl(this.href, "search", text);
    });
    return this.#params;
  }
  static {
    for (const [at, name] of PARTS.entries()) {
      Object.defineProperty(URL.prototype, name, {
        enumerable: true,
        configurable: true,
        get() {
          return this.#parts[at];
        },
        set(value) {
          if (name === "href") {
            this.#parts = new URL(value).#parts;
          } else if (name !== "origin") {
            this.#parts = native.changeUrl(this.href, name, `${value}`);
          }
          this.#params?._read(this.search);
        },
      });
    }
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
  [inspectSymbol](depth, options, inspect) {
    const properties = {};
    for (const name of ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search"]) {
      properties[name] = this[name];
    }
    return `URL ${inspect({ ...properties, searchParams: this.searchParams, hash: this.hash }, options)}`;
  }
}

function fileURLToPath(address) {
  const url = typeof address === "string" ? new URL(address) : address;
  if (url.protocol !== "file:") {
    throw Object.assign(new TypeError("The URL must be of scheme file"), { code: "ERR_INVALID_URL_SCHEME" });
  }
  return decodeURIComponent(url.pathname);
}

// Parses a URL with Node's older function, `url.parse`.
function parse(address, parseQuery) {
  const url = { protocol: null, slashes: null, auth: null, host: null, port: null, hostname: null, hash: null, search: null, query: null, pathname: null, path: null, href: address };
  const [, protocol, slashes, auth, host, pathname, search, hash] =
    /^([a-z][a-z\d+.-]*:)?(?:(\/\/)(?:([^@/?#]*)@)?([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(address.trim());
  const [, hostname, port] = /^(.*?)(?::(\d*))?$/.exec(host ?? "");
  Object.assign(url, {
    protocol: protocol?.toLowerCase() ?? null,
    slashes: slashes ? true : null,
    auth: auth === undefined ? null : decodeURIComponent(auth),
    host: host?.toLowerCase() ?? null,
    port: port || null,
    hostname: host === undefined ? null : hostname.toLowerCase(),
    hash: hash ?? null,
    search: search ?? null,
    query: search?.slice(1) ?? null,
    pathname: pathname || (slashes ? "/" : null),
  });
  url.path = url.pathname === null && url.search === null ? null : (url.pathname ?? "") + (url.search ?? "");
  url.href = format(url);
  if (parseQuery) {
    url.query = querystring.parse(url.query ?? "");
  }
  return url;
}

function format(url) {
  if (url instanceof URL) {
    return url.href;
  }
  const host = url.host ?? (url.hostname ? url.hostname + (url.port ? `:${url.port}` : "") : "");
  const query = url.search ?? (url.query && typeof url.query === "object" ? `?${querystring.stringify(url.query)}` : url.query ? `?${url.query}` : "");
  const protocol = url.protocol ? url.protocol.replace(/:?$/, ":") : "";
  const slashes = url.slashes || /^(https?|ftp|file):$/.test(protocol) ? "//" : "";
  return `${protocol}${slashes}${url.auth ? `${encodeURIComponent(url.auth).replace("%3A", ":")}@` : ""}${host}${url.pathname ?? ""}${query}${url.hash ?? ""}`;
}

const querystring = {
  escape: encodeURIComponent,
  unescape: decode,
  parse(text, separator = "&", equals = "=") {
    const query = Object.create(null);
    for (const pair of text.split(separator).filter(Boolean)) {
      const at = pair.indexOf(equals);
      const key = decode(at < 0 ? pair : pair.slice(0, at));
      const value = at < 0 ? "" : decode(pair.slice(at + equals.length));
      query[key] = key in query ? [query[key], value].flat() : value;
    }
    return query;
  },
  stringify: (object, separator = "&", equals = "=") =>
    Object.entries(object ?? {})
      .flatMap(([key, values]) => [values].flat().map((value) => `${encodeURIComponent(key)}${equals}${encodeURIComponent(value ?? "")}`))
      .join(separator),
};
querystring.decode = querystring.parse;
querystring.encode = querystring.stringify;

module.exports = {
  URL,
  URLSearchParams,
  fileURLToPath,
  pathToFileURL: (path) =>
    new URL(`file://${require("path").resolve(path).split("/").map((part) => encodeURIComponent(part).replace(/%(3A|40|24|2B|2C|3D|26|3B)/g, decodeURIComponent)).join("/")}`),
  parse,
  format,
  resolve: (from, to) => {
    const base = new URL(from, "resolve://");
    const resolved = new URL(to, base);
    return resolved.protocol === "resolve:" ? resolved.pathname + resolved.search + resolved.hash : resolved.href;
  },
  domainToASCII: (name) => native.parseUrl(`ws://${name}`, undefined)?.[5] ?? "",
  urlToHttpOptions: (url) => ({ protocol: url.protocol, hostname: url.hostname, path: url.pathname + url.search, href: url.href }),
  querystring,
};
