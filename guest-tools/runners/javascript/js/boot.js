// Makes what Node adds to the language, each part when it is first asked for, and gives
// the engine the functions that it calls. `native` is what `src` provides.
(function (native) {
  "use strict";
  const loaded = new Map();
  // What packages ask for, by the names that they use.
  const names = {
    "util/": "util",
    assert: "assert/assert",
    events: "events/events",
    path: "path/path",
  };
  const shims = {
    "call-bind/callBound": () => (regexp, text) => RegExp.prototype.test.call(regexp, text),
    "object-is/polyfill": () => Object.is,
    "object.assign/polyfill": () => Object.assign,
  };

  function own(name, from = "") {
    if (shims[name]) {
      return shims[name];
    }
    let key = names[name] ?? name;
    if (name.startsWith(".")) {
      const parts = from.split("/").slice(0, -1);
      for (const part of name.split("/")) {
        part === ".." ? parts.pop() : part === "." || parts.push(part);
      }
      key = parts.join("/");
    }
    const found = loaded.get(key);
    if (found) {
      return found.exports;
    }
    const source = native.source(key);
    if (source === undefined) {
      throw new Error(`the runner has no part ${key}`);
    }
    const module = { exports: {} };
    loaded.set(key, module);
    const make = native.compile(
      `(function (exports, require, module, native) {${source}\n})`,
      `node:internal/${key}`,
    );
    make.call(module.exports, module.exports, (next) => own(next, key), module, native);
    return module.exports;
  }

  const errorText = Error.prototype.toString;
  // A stack as V8 writes it, without the runner's own frames.
  Error.prepareStackTrace = (error, frames) => {
    let text;
    try {
      text = errorText.call(error);
    } catch {
      text = "Error";
    }
    for (const frame of frames) {
      const file = frame.getFileName() ?? "native";
      if (!file.startsWith("node:internal") && !frame.isNative()) {
        const name = frame.getFunctionName();
        const place = `${file}:${frame.getLineNumber()}:${frame.getColumnNumber()}`;
        text += name && name !== "<anonymous>" && name !== "<eval>" ? `\n    at ${name} (${place})` : `\n    at ${place}`;
      }
    }
    return text;
  };

  function global(key, make) {
    const set = (value) =>
      Object.defineProperty(globalThis, key, { value, writable: true, configurable: true });
    Object.defineProperty(globalThis, key, {
      configurable: true,
      set,
      get() {
        const value = make();
        set(value);
        return value;
      },
    });
  }

  const process = own("process");
  const timers = own("timers");
  const loader = own("loader");
  globalThis.global = globalThis;
  global("process", () => process);
  global("console", () => own("console"));
  global("Buffer", () => own("buffer").Buffer);
  for (const key of ["URL", "URLSearchParams"]) {
    global(key, () => own("url")[key]);
  }
  for (const key of ["TextEncoder", "TextDecoder", "AbortController", "AbortSignal", "DOMException",
    "structuredClone", "atob", "btoa", "performance", "fetch"]) {
    global(key, () => own("web")[key]);
  }
  global("crypto", () => own("crypto").webcrypto);
  for (const key of ["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval",
    "clearImmediate", "queueMicrotask"]) {
    global(key, () => timers[key]);
  }
  own("lacks").globals(global);

  return {
    main() {
      timers.guard(() => loader.main());
      timers.ticks();
    },
    turn: timers.turn,
    resolve: loader.resolve,
    load: loader.load,
    rejection: timers.rejection,
  };
});
