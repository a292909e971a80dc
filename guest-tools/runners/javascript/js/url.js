// `url`: addresses as browsers read them, and the older functions over them.
const PARTS = ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash", "origin"];
const inspectAs = Symbol.for("nodejs.util.inspect.custom");

const decode = (text) => native.decode(bytes(text.replaceAll("+", " ")), false);
function bytes(text) {
  const found = [];
  const all = new Uint8Array(native.encode(text.toWellFormed()));
  for (let at = 0; at < all.length; at += 1) {
    const digits = all[at] === 37 && String.fromCharCode(all[at + 1], all[at + 2]);
    if (digits && /^[\da-f]{2}$/i.test(digits)) {
      found.push(parseInt(digits, 16));
      at += 2;
    } else {
      found.push(all[at]);
    }
  }
  return new Uint8Array(found);
}
const encode = (text) =>
  encodeURIComponent(text.toWellFormed()).replaceAll("%20", "+").replace(/[!'()~]/g, (it) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`);

class URLSearchParams {
  #pairs = [];
  #changed;
  constructor(init = "", changed) {
    this.#changed = changed;
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
  #tell() {
    this.#changed?.(this.toString());
  }
  get size() {
    return this.#pairs.length;
  }
  append(key, value) {
    this.#pairs.push([`${key}`, `${value}`]);
    this.#tell();
  }
  delete(key, value) {
    this.#pairs = this.#pairs.filter(([name, its]) => name !== `${key}` || (value !== undefined && its !== `${value}`));
    this.#tell();
  }
  get(key) {
    return this.#pairs.find(([name]) => name === `${key}`)?.[1] ?? null;
  }
  getAll(key) {
    return this.#pairs.filter(([name]) => name === `${key}`).map(([, value]) => value);
  }
  has(key, value) {
    return this.#pairs.some(([name, its]) => name === `${key}` && (value === undefined || its === `${value}`));
  }
  set(key, value) {
    const first = this.#pairs.find(([name]) => name === `${key}`);
    if (first) {
      first[1] = `${value}`;
      this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== `${key}`);
    } else {
      this.#pairs.push([`${key}`, `${value}`]);
    }
    this.#tell();
  }
  sort() {
    this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.#tell();
  }
  forEach(act, self) {
    this.#pairs.forEach(([key, value]) => act.call(self, value, key, this));
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
  [inspectAs](depth, options, inspect) {
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
  [inspectAs](depth, options, inspect) {
    const shown = {};
    for (const name of ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search"]) {
      shown[name] = this[name];
    }
    return `URL ${inspect({ ...shown, searchParams: this.searchParams, hash: this.hash }, options)}`;
  }
}

function fileURLToPath(address) {
  const url = typeof address === "string" ? new URL(address) : address;
  if (url.protocol !== "file:") {
    throw Object.assign(new TypeError("The URL must be of scheme file"), { code: "ERR_INVALID_URL_SCHEME" });
  }
  return decodeURIComponent(url.pathname);
}

// The older form of an address.
function parse(address, parseQuery) {
  const found = { protocol: null, slashes: null, auth: null, host: null, port: null, hostname: null, hash: null, search: null, query: null, pathname: null, path: null, href: address };
  const [, protocol, slashes, auth, host, pathname, search, hash] =
    /^([a-z][a-z\d+.-]*:)?(?:(\/\/)(?:([^@/?#]*)@)?([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(address.trim());
  const [, hostname, port] = /^(.*?)(?::(\d*))?$/.exec(host ?? "");
  Object.assign(found, {
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
  found.path = found.pathname === null && found.search === null ? null : (found.pathname ?? "") + (found.search ?? "");
  found.href = format(found);
  if (parseQuery) {
    found.query = querystring.parse(found.query ?? "");
  }
  return found;
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
    const found = Object.create(null);
    for (const pair of text.split(separator).filter(Boolean)) {
      const at = pair.indexOf(equals);
      const key = decode(at < 0 ? pair : pair.slice(0, at));
      const value = at < 0 ? "" : decode(pair.slice(at + equals.length));
      found[key] = key in found ? [found[key], value].flat() : value;
    }
    return found;
  },
  stringify: (object, separator = "&", equals = "=") =>
    Object.entries(object ?? {})
      .flatMap(([key, value]) => [value].flat().map((one) => `${encodeURIComponent(key)}${equals}${encodeURIComponent(one ?? "")}`))
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
    const found = new URL(to, base);
    return found.protocol === "resolve:" ? found.pathname + found.search + found.hash : found.href;
  },
  domainToASCII: (name) => native.parseUrl(`ws://${name}`, undefined)?.[5] ?? "",
  urlToHttpOptions: (url) => ({ protocol: url.protocol, hostname: url.hostname, path: url.pathname + url.search, href: url.href }),
  querystring,
};
