// The streams that scripts use most: stdin, stdout and stderr, and those of files. Not all
// of `node:stream`: nothing here waits, since all data is there.
const Events = require("events");
// Bytes that are given at once.
const PART = 64 << 10;

class StringDecoder {
  constructor(encoding = "utf8") {
    this.encoding = encoding;
    this._left = Buffer.alloc(0);
  }
  write(bytes) {
    const all = Buffer.concat([this._left, bytes]);
    let end = all.length;
    if (/^utf-?8$/i.test(this.encoding)) {
      let at = end - 1;
      while (at >= 0 && end - at < 4 && (all[at] & 0xc0) === 0x80) {
        at -= 1;
      }
      const lead = at >= 0 ? all[at] : 0;
      const wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
      if (end - at < wanted && at >= 0) {
        end = at;
      }
    }
    this._left = all.subarray(end);
    return all.toString(this.encoding, 0, end);
  }
  end(bytes) {
    const text = (bytes ? this.write(bytes) : "") + this._left.toString(this.encoding);
    this._left = Buffer.alloc(0);
    return text;
  }
}

class Readable extends Events {
  constructor(take) {
    super();
    this._take = take;
    this._flows = false;
    this._isPlanned = false;
    this.readable = true;
    this.readableEnded = false;
    this.destroyed = false;
  }
  setEncoding(encoding) {
    this._decoder = new StringDecoder(encoding);
    return this;
  }
  on(name, act) {
    super.on(name, act);
    if (name === "data" || (name === "readable" && !this._flows)) {
      this._isReadable = name === "readable";
      this.resume();
    }
    return this;
  }
  resume() {
    this._flows = true;
    this._plan();
    return this;
  }
  pause() {
    this._flows = false;
    return this;
  }
  isPaused() {
    return !this._flows;
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
  // The next part; null at the end.
  _next() {
    const bytes = this._take();
    if (bytes === null) {
      const rest = this._decoder?.end();
      return rest ? rest : null;
    }
    return this._decoder ? this._decoder.write(bytes) : bytes;
  }
  read() {
    const part = this.readableEnded ? null : this._next();
    if (part === null) {
      this._finish();
    }
    return part;
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
  _plan() {
    if (this._isPlanned || this.readableEnded) {
      return;
    }
    this._isPlanned = true;
    setImmediate(() => {
      this._isPlanned = false;
      if (!this._flows || this.destroyed || this.readableEnded) {
        return;
      }
      let part;
      try {
        if (this._isReadable) {
          this.emit("readable");
          this.readableEnded ? undefined : this.read() !== null && this._plan();
          return;
        }
        part = this._next();
      } catch (error) {
        this.destroyed = true;
        this.emit("error", error);
        return;
      }
      if (part === null) {
        this._finish();
      } else {
        if (part.length > 0) {
          this.emit("data", part);
        }
        this._plan();
      }
    });
  }
  pipe(target) {
    this.on("data", (part) => target.write(part));
    if (target !== standard.stdout && target !== standard.stderr) {
      this.on("end", () => target.end());
    }
    return target;
  }
  async *[Symbol.asyncIterator]() {
    for (let part; (part = this.read()) !== null; ) {
      await null;
      yield part;
    }
  }
}

class Writable extends Events {
  constructor(put, close) {
    super();
    this._put = put;
    this._close = close;
    this.writable = true;
    this.writableEnded = false;
    this.writableLength = 0;
    this.bytesWritten = 0;
  }
  write(data, encoding, done) {
    if (typeof encoding === "function") {
      [encoding, done] = [undefined, encoding];
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
      this._put(data, encoding);
    } catch (error) {
      setImmediate(() => (done ? done(error) : this.emit("error", error)));
      return false;
    }
    if (done) {
      setImmediate(done, null);
    }
    return true;
  }
  end(data, encoding, done) {
    if (typeof data === "function") {
      [data, done] = [undefined, data];
    } else if (typeof encoding === "function") {
      [encoding, done] = [undefined, encoding];
    }
    if (data != null) {
      this.write(data, encoding);
    }
    this.writableEnded = true;
    this._close?.();
    setImmediate(() => {
      done?.();
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
  // Nobody closes them.
  stream.end = (data, ...rest) => {
    if (data != null && typeof data !== "function") {
      stream.write(data);
    }
    [data, ...rest].find((it) => typeof it === "function")?.();
    return stream;
  };
  return Object.assign(stream, { fd, _type: "pipe", isTTY: undefined, getColorDepth: () => 1, hasColors: () => false });
}

function parts(bytes, size = PART) {
  let at = 0;
  return () => {
    if (at >= bytes.length) {
      return null;
    }
    const part = bytes.subarray(at, at + size);
    at += part.length;
    return Buffer.from(part);
  };
}

const standard = {
  get stdin() {
    const stream = Object.assign(new Readable(() => {
      const part = require("fs").stdin(PART);
      return part.length > 0 ? Buffer.from(part) : null;
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
exports.from = (bytes) => new Readable(parts(bytes));
exports.reader = (path, options) => {
  options = typeof options === "string" ? { encoding: options } : (options ?? {});
  let take;
  const stream = new Readable(() => {
    if (!take) {
      let bytes = require("fs").readFileSync(path);
      bytes = bytes.subarray(options.start ?? 0, (options.end ?? Infinity) + 1);
      take = parts(bytes, options.highWaterMark);
    }
    return take();
  });
  Object.assign(stream, { path });
  setImmediate(() => {
    try {
      require("fs").accessSync(path);
    } catch (error) {
      error.syscall = "open";
      error.message = error.message.replace(", access ", ", open ");
      stream.destroyed = true;
      stream.emit("error", error);
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
  let trouble;
  try {
    fd = fs.openSync(path, options?.flags ?? "w");
  } catch (error) {
    trouble = error;
  }
  const stream = new Writable(
    (data, encoding) => {
      if (trouble) {
        return;
      }
      const bytes = typeof data === "string" ? Buffer.from(data, encoding ?? options?.encoding) : data;
      stream.bytesWritten += fs.writeSync(fd, bytes);
    },
    () => fd !== undefined && fs.closeSync(fd),
  );
  Object.assign(stream, { path });
  setImmediate(() => (trouble ? stream.emit("error", trouble) : stream.emit("open", fd)));
  return stream;
};
