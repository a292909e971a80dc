// Defines Node's globals, and returns the functions that the engine calls. Loads each internal
// module when it is first used. `native` has the functions that `src` provides.
(function (native) {
  "use strict";
  const loaded = new Map();
  // The names by which packages require internal modules.
  const aliases = {
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

  // Loads an internal module. `from` is the module that requires it.
  function internal(name, from = "") {
    if (shims[name]) {
      return shims[name];
    }
    let key = aliases[name] ?? name;
    if (name.startsWith(".")) {
      const parts = from.split("/").slice(0, -1);
      for (const part of name.split("/")) {
        part === ".." ? parts.pop() : part === "." || parts.push(part);
      }
      key = parts.join("/");
    }
    const cached = loaded.get(key);
    if (cached) {
      return cached.exports;
    }
    const source = native.source(key);
    if (source === undefined) {
      throw new Error(`the runner has no internal module ${key}`);
    }
    const module = { exports: {} };
    loaded.set(key, module);
    const run = native.compile(
      `(function (exports, require, module, native) {${source}\n})`,
      `node:internal/${key}`,
    );
    run.call(module.exports, module.exports, (required) => internal(required, key), module, native);
    return module.exports;
  }

  const errorText = Error.prototype.toString;
  // Formats a stack as V8 does, without the runner's own frames.
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
        const location = `${file}:${frame.getLineNumber()}:${frame.getColumnNumber()}`;
        text += name && name !== "<anonymous>" && name !== "<eval>" ? `\n    at ${name} (${location})` : `\n    at ${location}`;
      }
    }
    return text;
  };

  // Defines a global whose value is made when it is first read.
  function defineGlobal(key, make) {
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

  const process = internal("process");
  const timers = internal("timers");
  const loader = internal("loader");
  globalThis.global = globalThis;
  defineGlobal("process", () => process);
  defineGlobal("console", () => internal("console"));
  defineGlobal("Buffer", () => internal("buffer").Buffer);
  for (const key of ["URL", "URLSearchParams"]) {
    defineGlobal(key, () => internal("url")[key]);
  }
  for (const key of ["TextEncoder", "TextDecoder", "AbortController", "AbortSignal", "DOMException",
    "structuredClone", "atob", "btoa", "performance"]) {
    defineGlobal(key, () => internal("web")[key]);
  }
  for (const key of ["fetch", "Headers", "Request", "Response", "Blob", "File", "FormData"]) {
    defineGlobal(key, () => internal("fetch")[key]);
  }
  defineGlobal("crypto", () => internal("crypto").webcrypto);
  for (const key of ["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval",
    "clearImmediate", "queueMicrotask"]) {
    defineGlobal(key, () => timers[key]);
  }
  internal("unsupported").defineGlobals(defineGlobal);

  return {
    main() {
      timers.guard(() => loader.main());
      timers.runTicks();
    },
    turn: timers.turn,
    resolve: loader.resolve,
    load: loader.load,
    withoutAttribute: loader.withoutAttribute,
    rejection: timers.rejection,
  };
});
