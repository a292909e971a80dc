// HTTP requests. The host sends those that the operator's grant for the tool allows, and denies all
// others. A project that imports this module, or uses `fetch`, asks for the network in `needs.toml`.
//
//     const response = get("https://api.example.org/v1/forecast?place=Kiel", {
//       headers: { authorization: `Bearer ${variable("WEATHER_TOKEN")}` },
//     });
//
// A variable that holds a secret has a placeholder in the sandbox. The host puts the secret in its
// place, in the header and for the host names of the grant. Redirects are not followed: a tool reads
// the header `location`.
//
// These functions wait for the response. For several requests at a time, use `fetch` in an async
// function; its errors do not say their kind.
import { handle } from "wasi:http/outgoing-handler@0.2.0";
import { Fields, OutgoingBody, OutgoingRequest, RequestOptions, httpErrorCode } from "wasi:http/types@0.2.0";

import { Failure } from "./skillhost-folder.js";

// The maximum size of a body that `bytes`, `text` and `json` read.
export const MAX_BODY_BYTES = 16 << 20;
// The maximum size of a chunk of a streamed body.
const CHUNK_BYTES = 64n << 10n;

// The error of a request, or of reading its response. Its kind is "denied", "name", "connection",
// "timeout", "certificate", "protocol", "limit" or "other".
export class HttpError extends Error {
  constructor(kind, method, url, reason = REASONS[kind]) {
    // The parameters may be long.
    super(`${method} ${url.split("?")[0]}: ${reason}`);
    this.kind = kind;
    // The `err` of the result of a typed function that throws the error.
    this.payload = this.message;
    // The failure of a call that throws the error.
    this.failure = new Failure(kind === "denied" ? "refused" : "failed", this.message);
  }
}

const REASONS = {
  denied: "network access is not granted for this address",
  name: "the host name has no address",
  connection: "cannot connect, or the connection ended early",
  timeout: "no answer in time",
  certificate: "the server's certificate is not valid",
  protocol: "invalid address, request or response",
  limit: "more requests or bytes than a call may have",
  other: "the request failed",
};

// The kinds of the codes of wasi:http. Codes of sizes are limits.
const KINDS = {
  "HTTP-request-denied": "denied",
  "destination-IP-prohibited": "denied",
  "DNS-timeout": "name",
  "DNS-error": "name",
  "destination-not-found": "name",
  "destination-unavailable": "connection",
  "destination-IP-unroutable": "connection",
  "connection-refused": "connection",
  "connection-terminated": "connection",
  "connection-timeout": "timeout",
  "connection-read-timeout": "timeout",
  "connection-write-timeout": "timeout",
  "HTTP-response-timeout": "timeout",
  "TLS-protocol-error": "certificate",
  "TLS-certificate-error": "certificate",
  "TLS-alert-received": "certificate",
  "connection-limit-reached": "limit",
  "HTTP-request-URI-too-long": "limit",
  "loop-detected": "other",
  "configuration-error": "other",
  "internal-error": "other",
};

function kindOf(code) {
  return KINDS[code?.tag] ?? (/-size$/.test(code?.tag) ? "limit" : "protocol");
}

// Sends a GET request. The options are those of `request`.
export function get(url, options) {
  return request("GET", url, options);
}

// Sends a POST request. The options are those of `request`.
export function post(url, options) {
  return request("POST", url, options);
}

// Sends a request, and waits for the head of the response. Options: `headers`, an object or a list of
// pairs; `json`, a value to send, or `body`, a text or bytes; and `timeout`, the maximum time to
// connect, to wait for the response, and between two chunks of its body, in milliseconds.
export function request(method, url, { headers = [], json, body, timeout } = {}) {
  url = String(url).split("#")[0];
  const fail = (kind) => new HttpError(kind, method, url);
  const bytes = bodyBytes(json === undefined ? body : JSON.stringify(json));
  let future;
  let outgoing;
  try {
    const { protocol, host, username, pathname, search } = new URL(url);
    if (!/^https?:$/.test(protocol) || username !== "") {
      throw fail("protocol");
    }
    const fields = new Fields();
    const append = (name, value) => fields.append(name, new TextEncoder().encode(String(value)));
    const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
    pairs.forEach(([name, value]) => append(name, value));
    if (json !== undefined && !pairs.some(([name]) => name.toLowerCase() === "content-type")) {
      append("content-type", "application/json");
    }
    if (bytes) {
      append("content-length", bytes.length);
    }
    const it = new OutgoingRequest(fields);
    it.setMethod(methodOf(method));
    it.setScheme({ tag: protocol === "https:" ? "HTTPS" : "HTTP" });
    it.setAuthority(host);
    it.setPathWithQuery(pathname + search);
    outgoing = bytes && it.body();
    future = handle(it, timeout === undefined ? undefined : optionsOf(timeout));
  } catch (error) {
    throw error instanceof HttpError ? error : fail(kindOf(error?.payload));
  }
  if (outgoing) {
    write(outgoing, bytes);
  }
  future.subscribe().block();
  const { val: result } = future.get();
  if (result.tag === "err") {
    throw fail(kindOf(result.val));
  }
  return new Response(result.val, method, url);
}

function bodyBytes(body) {
  return body == null || body instanceof Uint8Array ? body : new TextEncoder().encode(String(body));
}

function methodOf(name) {
  const tag = name.toLowerCase();
  const isKnown = ["get", "head", "post", "put", "delete", "options", "patch"].includes(tag);
  return isKnown ? { tag } : { tag: "other", val: name };
}

function optionsOf(timeout) {
  const nanoseconds = BigInt(Math.round(timeout * 1e6));
  const options = new RequestOptions();
  options.setConnectTimeout(nanoseconds);
  options.setFirstByteTimeout(nanoseconds);
  options.setBetweenBytesTimeout(nanoseconds);
  return options;
}

// Writes the body of a request. After an error here, the response says why.
function write(outgoing, bytes) {
  try {
    const stream = outgoing.write();
    withHandle(stream, () => {
      for (let at = 0; at < bytes.length; ) {
        const capacity = Number(stream.checkWrite());
        if (capacity === 0) {
          const pollable = stream.subscribe();
          withHandle(pollable, () => pollable.block());
        } else {
          stream.write(bytes.subarray(at, at + capacity));
          at += capacity;
        }
      }
      stream.blockingFlush();
    });
    OutgoingBody.finish(outgoing, undefined);
  } catch (error) {
    if (error?.payload === undefined) {
      throw error;
    }
  }
}

// Calls `use`, then closes the handle: the host refuses to close what it belongs to before.
function withHandle(handle, use) {
  try {
    use();
  } finally {
    handle[Symbol.dispose ?? Symbol.for("dispose")]();
  }
}

// A response.
export class Response {
  #incoming;
  #method;
  #url;

  constructor(incoming, method, url) {
    this.#incoming = incoming;
    this.#method = method;
    this.#url = url;
    // The status, such as 200.
    this.status = incoming.status();
    // The headers; their names are in lower case.
    this.headers = new Headers();
    for (const [name, value] of incoming.headers().entries()) {
      this.headers.append(name, new TextDecoder().decode(value));
    }
  }

  // Returns an iterator over the chunks of the body, of any size.
  *stream() {
    const body = this.#incoming.consume();
    const input = body.stream();
    try {
      for (;;) {
        let chunk;
        try {
          chunk = input.blockingRead(CHUNK_BYTES);
        } catch (error) {
          const { tag, val } = error.payload ?? {};
          if (tag === "closed") {
            return;
          }
          if (tag === undefined) {
            throw error;
          }
          const code = httpErrorCode(val);
          throw this.#fail(code === undefined ? "connection" : kindOf(code));
        }
        if (chunk.length > 0) {
          yield chunk;
        }
      }
    } finally {
      withHandle(input, () => {});
    }
  }

  // Returns the bytes of the body. Fails if it has more than MAX_BODY_BYTES.
  bytes() {
    const chunks = [];
    let length = 0;
    for (const chunk of this.stream()) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) {
        throw this.#fail("limit");
      }
      chunks.push(chunk);
    }
    const bytes = new Uint8Array(length);
    let offset = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, offset);
      offset += chunk.length;
    }
    return bytes;
  }

  // Returns the body as text. Fails as `bytes` does.
  text() {
    return new TextDecoder().decode(this.bytes());
  }

  // Returns the value of a body of JSON. Fails as `bytes` does.
  json() {
    const text = this.text();
    try {
      return JSON.parse(text);
    } catch (error) {
      throw this.#fail("protocol", `unexpected JSON: ${error.message}`);
    }
  }

  #fail(kind, reason) {
    return new HttpError(kind, this.#method, this.#url, reason);
  }
}
