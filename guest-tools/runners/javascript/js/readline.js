// `readline` over streams: lines of stdin or of a file. There is no terminal.
const Events = require("events");

class Interface extends Events {
  constructor(options) {
    super();
    this._input = options.input;
    this._output = options.output;
    this._prompt = options.prompt ?? "> ";
    this._lines = [];
    // The number of lines at the start of `_lines` that have been read.
    this._taken = 0;
    this._questions = [];
    this._rest = "";
    this._isClosed = false;
    this._decoder = new (require("streams").StringDecoder)();
    this._input.on("data", (chunk) => {
      this._rest += typeof chunk === "string" ? chunk : this._decoder.write(chunk);
      const lines = this._rest.split(/\r\n|\n|\r(?!$)/);
      this._rest = lines.pop();
      this._add(lines);
    });
    this._input.on("end", () => {
      this._rest += this._decoder.end();
      this._add(this._rest === "" ? [] : [this._rest.replace(/\r$/, "")]);
      this._hasEnded = true;
      this._flush();
    });
    this._input.on("error", (error) => {
      this._error = error;
      this._wake?.();
    });
  }
  _add(lines) {
    if (this._hasLines()) {
      lines.forEach((line) => this._lines.push(line));
    } else {
      this._lines = lines;
      this._taken = 0;
    }
    this._flush();
  }
  _hasLines() {
    return this._taken < this._lines.length;
  }
  _take() {
    return this._lines[this._taken++];
  }
  _flush() {
    while (this._hasLines() && !this._isPaused && !this._isClosed) {
      const callback = this._questions.shift();
      if (callback) {
        callback(this._take());
      } else if (this.listenerCount("line") > 0) {
        this.emit("line", this._take());
      } else {
        break;
      }
    }
    if (this._hasEnded && !this._hasLines()) {
      this.close();
    }
    this._wake?.();
  }
  on(name, listener) {
    super.on(name, listener);
    if (name === "line") {
      setImmediate(() => this._flush());
    }
    return this;
  }
  setPrompt(prompt) {
    this._prompt = prompt;
  }
  prompt() {
    this._output?.write(this._prompt);
  }
  question(text, options, callback = options) {
    this._output?.write(text);
    this._questions.push(callback);
    setImmediate(() => this._flush());
  }
  write() {}
  pause() {
    this._isPaused = true;
    return this;
  }
  resume() {
    this._isPaused = false;
    setImmediate(() => this._flush());
    return this;
  }
  close() {
    if (!this._isClosed) {
      this._isClosed = true;
      this._input.pause();
      this.emit("close");
      this._wake?.();
    }
  }
  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this._hasLines()) {
        yield this._take();
      }
      if (this._error) {
        throw this._error;
      }
      if (this._hasEnded || this._isClosed) {
        this.close();
        return;
      }
      await new Promise((wake) => {
        this._wake = wake;
      });
    }
  }
}

exports.Interface = Interface;
exports.createInterface = (input, output) =>
  new Interface(input?.input ? input : { input, output });
exports.clearLine = exports.cursorTo = exports.moveCursor = exports.clearScreenDown = () => true;
exports.promises = {
  Interface,
  createInterface(options) {
    const created = exports.createInterface(options);
    const ask = created.question.bind(created);
    created.question = (text) => new Promise((resolve) => ask(text, resolve));
    return created;
  },
};
