// The streams that scripts use most: stdin, stdout, stderr and files. This is a part of
// `node:stream`, without backpressure: all data is in memory.
const Events = require("events");
// The size of a chunk that a stream reads.
const CHUNK_BYTES = 64 << 10;

// Returns the number of bytes of an incomplete character at the end.
function incompleteLength(bytes, encoding) {
  const { length } = bytes;
  switch (encoding) {
    case "utf8":
      for (let count = 1; count <= Math.min(3, length); count += 1) {
        const byte = bytes[length - count];
        if ((byte & 0xc0) !== 0x80) {
          const complete = byte >= 0xf8 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
          return count < complete ? count : 0;
        }
      }
      return 0;
    case "utf16le": {
      const odd = length % 2;
      // A high surrogate needs the low one.
      return odd + (length - odd > 0 && (bytes[length - odd - 1] & 0xfc) === 0xd8 ? 2 : 0);
    }
    case "base64":
    case "base64url":
      return length % 3;
    default:
      return 0;
  }
}

class StringDecoder {
  constructor(encoding) {
    encoding ||= "utf8";
    if (!Buffer.isEncoding(encoding)) {
      throw Object.assign(new TypeError(`Unknown encoding: ${encoding}`), { code: "ERR_UNKNOWN_ENCODING" });
    }
    const name = encoding.toLowerCase();
    this.encoding = { "utf-8": "utf8", ucs2: "utf16le", "ucs-2": "utf16le", "utf-16le": "utf16le", binary: "latin1" }[name] ?? name;
    this._rest = Buffer.alloc(0);
  }
  write(bytes) {
    if (typeof bytes === "string") {
      return bytes;
    }
    const part = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const all = this._rest.length > 0 ? Buffer.concat([this._rest, part]) : part;
    const end = all.length - incompleteLength(all, this.encoding);
    // A copy, because the caller may reuse its buffer.
    this._rest = Buffer.from(all.subarray(end));
    return all.toString(this.encoding, 0, end);
  }
  end(bytes) {
    const text = (bytes ? this.write(bytes) : "") + this._rest.toString(this.encoding);
    this._rest = Buffer.alloc(0);
    return text;
  }
}

class Readable extends Events {
  // `takeChunk` returns the next bytes, or null at the end.
  constructor(takeChunk) {
    super();
    this._takeChunk = takeChunk;
    this._isFlowing = false;
    this._isScheduled = false;
    this.readable = true;
    this.readableEnded = false;
    this.destroyed = false;
  }
  setEncoding(encoding) {
    this._decoder = new StringDecoder(encoding);
    return this;
  }
  on(name, listener) {
    super.on(name, listener);
    if (name === "data" || (name === "readable" && !this._isFlowing)) {
      this._isReadable = name === "readable";
      this.resume();
    }
    return this;
  }
  resume() {
    this._isFlowing = true;
    this._schedule();
    return this;
  }
  pause() {
    this._isFlowing = false;
    return this;
  }
  isPaused() {
    return !this._isFlowing;
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  destroy(error) {
    this.destroyed = true;
    if (error) {
      setImmediate(() => this.emit("error", error));
    }
    setImmediate(() => this.emit("close"));
    return this;
  }
  // Returns the next chunk, or null at the end.
  _next() {
    const bytes = this._takeChunk();
    if (bytes === null) {
      const rest = this._decoder?.end();
      return rest ? rest : null;
    }
    return this._decoder ? this._decoder.write(bytes) : bytes;
  }
  read() {
    const chunk = this.readableEnded ? null : this._next();
    if (chunk === null) {
      this._finish();
    }
    return chunk;
  }
  _finish() {
    if (!this.readableEnded) {
      this.readableEnded = true;
      this.readable = false;
      setImmediate(() => {
        this.emit("end");
        this.emit("close");
      });
    }
  }
  _schedule() {
    if (this._isScheduled || this.readableEnded) {
      return;
    }
    this._isScheduled = true;
    setImmediate(() => {
      this._isScheduled = false;
      if (!this._isFlowing || this.destroyed || this.readableEnded) {
        return;
      }
      let chunk;
      try {
        if (this._isReadable) {
          this.emit("readable");
          this.readableEnded ? undefined : this.read() !== null && this._schedule();
          return;
        }
        chunk = this._next();
      } catch (error) {
        this.destroyed = true;
        this.emit("error", error);
        return;
      }
      if (chunk === null) {
        this._finish();
      } else {
        if (chunk.length > 0) {
          this.emit("data", chunk);
        }
        this._schedule();
      }
    });
  }
  pipe(target) {
    this.on("data", (chunk) => target.write(chunk));
    if (target !== standard.stdout && target !== standard.stderr) {
      this.on("end", () => target.end());
    }
    return target;
  }
  async *[Symbol.asyncIterator]() {
    // The loop throws the error.
    this.on("error", () => {});
    for (let chunk; (chunk = this.read()) !== null; ) {
      await null;
      yield chunk;
    }
  }
}

class Writable extends Events {
  constructor(writeChunk, close) {
    super();
    this._writeChunk = writeChunk;
    this._close = close;
    this.writable = true;
    this.writableEnded = false;
    this.writableLength = 0;
    this.bytesWritten = 0;
  }
  write(data, encoding, callback) {
    if (typeof encoding === "function") {
      [encoding, callback] = [undefined, encoding];
    }
    if (typeof data !== "string" && !ArrayBuffer.isView(data)) {
      const error = new TypeError(`The "chunk" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${require("util").inspect(data)}`);
      throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
    }
    if (this.writableEnded) {
      const error = Object.assign(new Error("write after end"), { code: "ERR_STREAM_WRITE_AFTER_END" });
      setImmediate(() => this.emit("error", error));
      return false;
    }
    try {
      this._writeChunk(data, encoding);
    } catch (error) {
      setImmediate(() => (callback ? callback(error) : this.emit("error", error)));
      return false;
    }
    if (callback) {
      setImmediate(callback, null);
    }
    return true;
  }
  end(data, encoding, callback) {
    if (typeof data === "function") {
      [data, callback] = [undefined, data];
    } else if (typeof encoding === "function") {
      [encoding, callback] = [undefined, encoding];
    }
    if (data != null) {
      this.write(data, encoding);
    }
    this.writableEnded = true;
    this._close?.();
    setImmediate(() => {
      callback?.();
      this.emit("finish");
      this.emit("close");
    });
    return this;
  }
  cork() {}
  uncork() {}
  setDefaultEncoding() {
    return this;
  }
  destroy() {
    return this.end();
  }
}

function standardWriter(fd) {
  const stream = new Writable((data, encoding) => {
    if (typeof data === "string" && (encoding === undefined || /^utf-?8$/i.test(encoding))) {
      native.output(fd, data.toWellFormed());
    } else {
      native.outputBytes(fd, typeof data === "string" ? Buffer.from(data, encoding) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    }
  });
  // stdout and stderr stay open.
  stream.end = (data, ...rest) => {
    if (data != null && typeof data !== "function") {
      stream.write(data);
    }
    [data, ...rest].find((argument) => typeof argument === "function")?.();
    return stream;
  };
  return Object.assign(stream, { fd, _type: "pipe", isTTY: undefined, getColorDepth: () => 1, hasColors: () => false });
}

// Returns a function that returns the next chunk of `bytes`, or null at the end.
function chunks(bytes, size = CHUNK_BYTES) {
  let offset = 0;
  return () => {
    if (offset >= bytes.length) {
      return null;
    }
    const chunk = bytes.subarray(offset, offset + size);
    offset += chunk.length;
    return Buffer.from(chunk);
  };
}

const standard = {
  get stdin() {
    const stream = Object.assign(new Readable(() => {
      const chunk = require("fs").stdin(CHUNK_BYTES);
      return chunk.length > 0 ? Buffer.from(chunk) : null;
    }), { fd: 0, isTTY: undefined });
    Object.defineProperty(standard, "stdin", { value: stream });
    return stream;
  },
};
for (const [name, fd] of [["stdout", 1], ["stderr", 2]]) {
  Object.defineProperty(standard, name, {
    configurable: true,
    get() {
      const value = standardWriter(fd);
      Object.defineProperty(standard, name, { value });
      return value;
    },
  });
}

exports.standard = standard;
exports.StringDecoder = StringDecoder;
exports.incompleteLength = incompleteLength;
exports.from = (bytes) => new Readable(chunks(bytes));
exports.reader = (path, options) => {
  options = typeof options === "string" ? { encoding: options } : (options ?? {});
  let takeChunk;
  const stream = new Readable(() => {
    if (!takeChunk) {
      let bytes = require("fs").readFileSync(path);
      bytes = bytes.subarray(options.start ?? 0, (options.end ?? Infinity) + 1);
      takeChunk = chunks(bytes, options.highWaterMark);
    }
    return takeChunk();
  });
  Object.assign(stream, { path });
  setImmediate(() => {
    try {
      require("fs").accessSync(path);
    } catch (error) {
      stream.destroyed = true;
      stream.emit("error", error.syscall ? require("fs").error(error.code, "open", error.path) : error);
      return;
    }
    stream.emit("open", 10);
    stream.emit("ready");
  });
  return options.encoding ? stream.setEncoding(options.encoding) : stream;
};
exports.writer = (path, options) => {
  const fs = require("fs");
  let fd;
  let openError;
  try {
    fd = fs.openSync(path, options?.flags ?? "w");
  } catch (error) {
    openError = error;
  }
  const stream = new Writable(
    (data, encoding) => {
      if (openError) {
        return;
      }
      const bytes = typeof data === "string" ? Buffer.from(data, encoding ?? options?.encoding) : data;
      stream.bytesWritten += fs.writeSync(fd, bytes);
    },
    () => fd !== undefined && fs.closeSync(fd),
  );
  Object.assign(stream, { path });
  setImmediate(() => (openError ? stream.emit("error", openError) : stream.emit("open", fd)));
  return stream;
};
