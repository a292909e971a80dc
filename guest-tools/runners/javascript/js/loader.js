// Finds and loads modules: Node's, the skill's CommonJS and ES modules, and JSON.
const process = require("process");
const unsupported = require("unsupported");

const nodeModules = {
  assert: () => require("assert"),
  "assert/strict": () => require("assert").strict,
  buffer: () => require("buffer"),
  console: () => console,
  constants: () => require("fs").constants,
  crypto: () => require("crypto"),
  events: () => require("events"),
  fs: () => require("fs"),
  "fs/promises": () => require("fs").promises,
  module: () => Module,
  os: () => require("os"),
  path: () => require("path"),
  "path/posix": () => require("path"),
  perf_hooks: () => ({ performance }),
  process: () => process,
  querystring: () => require("url").querystring,
  readline: () => require("readline"),
  "readline/promises": () => require("readline").promises,
  string_decoder: () => ({ StringDecoder: require("streams").StringDecoder }),
  timers: () => require("timers"),
  "timers/promises": () => require("timers").promises,
  url: () => require("url"),
  util: () => require("util"),
  "util/types": () => require("util").types,
  ...unsupported.modules,
};
const builtins = new Map();
// The texts of code and of package.json files that the host has given, by path.
const sources = new Map();
// Paths that the current import tried, and at which the skill has no file on disk.
let triedPaths = [];
let isMainPending = false;

// Returns a module of Node, or undefined if there is none of that name.
function builtin(specifier) {
  const hasScheme = specifier.startsWith("node:");
  const name = hasScheme ? specifier.slice(5) : specifier;
  if (builtins.has(name)) {
    return builtins.get(name);
  }
  if (Object.hasOwn(nodeModules, name)) {
    builtins.set(name, nodeModules[name]());
    return builtins.get(name);
  }
  const error = unsupported.moduleError(name);
  if (error) {
    throw error;
  }
  if (hasScheme) {
    const error = new Error(`No such built-in module: ${specifier}`);
    throw Object.assign(error, { code: "ERR_UNKNOWN_BUILTIN_MODULE" });
  }
}
const isBuiltin = (name) =>
  Object.hasOwn(nodeModules, name.replace(/^node:/, "")) || name.startsWith("node:");

function isFile(path) {
  try {
    return native.stat(path, true)[0] === 0;
  } catch {
    return false;
  }
}
const relativePath = (path) => path.replace(`${native.folder}/`, "");
const folderOf = (path) => path.slice(0, path.lastIndexOf("/")) || "/";

function join(base, path) {
  const parts = path.startsWith("/") ? [] : base.split("/").filter(Boolean);
  for (const part of path.split("/")) {
    if (part === "..") {
      parts.pop();
    } else if (part !== "" && part !== ".") {
      parts.push(part);
    }
  }
  return `/${parts.join("/")}`;
}

// The error of a file that the host refuses, for example because the call changed it.
class RefusedFileError extends Error {
  constructor(path, reason) {
    super(`${relativePath(path)}: not run as code: ${reason}`);
    this.code = "MODULE_NOT_FOUND";
    native.note(this.message);
  }
}

// Loads a file of the skill from the disk. Returns its kind, and the text of a module.
function onDisk(path) {
  const [kind, text] = native.loadModule(path);
  if (kind === "refused") {
    throw new RefusedFileError(path, text);
  }
  return [kind, text];
}
const isFolder = (path) => onDisk(path)[0] === "folder";

// Returns the text of a code or package.json file, or undefined if the skill does not have it on
// disk. Files that the call wrote, inputs and the script's own, are data and never run.
function code(path) {
  if (!sources.has(path)) {
    // For the script itself, use the bytes that the host has allowed this call to run.
    const text = path === native.script ? native.scriptSource : onDisk(path)[1];
    if (text === undefined) {
      triedPaths.push(path);
      return undefined;
    }
    sources.set(path, text.replace(/^\ufeff/, ""));
  }
  return sources.get(path);
}
const isCode = (path) => code(path) !== undefined;
const isData = (path) => path.endsWith(".json");
// A JSON file may come from the call, because only its exact path imports it.
const isModule = (path) => (isData(path) ? isFile(path) : isCode(path));

function readText(path) {
  return require("fs").readFileSync(path, "utf8").replace(/^\ufeff/, "");
}

// Returns the parsed package.json of a folder, or undefined if it has none.
function packageJson(folder) {
  const text = code(`${folder}/package.json`);
  return text === undefined ? undefined : JSON.parse(text);
}

// Returns a message if the current import skipped a file because the call wrote it.
function skippedFileMessage() {
  const written = triedPaths.findLast(isFile);
  return written && `${relativePath(written)}: not run as code: this call wrote the file, and only the skill's files on disk run as code; a script can read it`;
}

// Returns the nearest package.json inside the skill, and its folder.
function nearestPackage(folder) {
  for (let current = folder; current.startsWith(native.folder); current = folderOf(current)) {
    const json = packageJson(current);
    if (json) {
      return { folder: current, ...json };
    }
    if (current.endsWith("/node_modules")) {
      break;
    }
  }
  return {};
}

function resolveFile(path, exists = isCode) {
  return exists(path) ? path : [".js", ".json", ".cjs", ".mjs"].map((extension) => path + extension).find(isCode);
}

function resolveFolder(path) {
  if (!isFolder(path)) {
    return undefined;
  }
  const main = packageJson(path)?.main;
  const mainFile = main && (resolveFile(join(path, main)) ?? resolveFile(join(path, `${main}/index`)));
  if (mainFile) {
    return mainFile;
  }
  return resolveFile(`${path}/index`);
}

// Returns the target for a name in a package's `exports` or `imports`.
function exportTarget(table, name, conditions) {
  const choose = (value) => {
    if (typeof value === "string" || value == null) {
      return value;
    }
    if (Array.isArray(value)) {
      return value.map(choose).find(Boolean);
    }
    const key = Object.keys(value).find((key) => conditions.includes(key) && choose(value[key]));
    return key && choose(value[key]);
  };
  if (typeof table === "string" || Array.isArray(table) || !Object.keys(table).some((key) => /^[.#]/.test(key))) {
    return name === "." ? choose(table) : undefined;
  }
  if (Object.hasOwn(table, name)) {
    return choose(table[name]);
  }
  for (const key of Object.keys(table)) {
    const [prefix, suffix] = key.split("*");
    if (suffix !== undefined && name.startsWith(prefix) && name.endsWith(suffix)) {
      const match = name.slice(prefix.length, name.length - suffix.length);
      return choose(table[key])?.replaceAll("*", match);
    }
  }
}

function resolvePackage(specifier, base, conditions) {
  const [, name, rest] = /^(@[^/]+\/[^/]+|[^/]+)(.*)$/.exec(specifier) ?? [, specifier, ""];
  for (let current = base; current.startsWith(native.folder); current = folderOf(current)) {
    const folder = `${current}/node_modules/${name}`;
    if (isFolder(folder)) {
      const exportTable = packageJson(folder)?.exports;
      if (exportTable) {
        const target = exportTarget(exportTable, `.${rest}`, conditions);
        if (target && isCode(join(folder, target))) {
          return join(folder, target);
        }
      } else {
        const file = rest ? (resolveFile(folder + rest) ?? resolveFolder(folder + rest)) : resolveFolder(folder);
        if (file) {
          return file;
        }
      }
    }
  }
}

const isPath = (specifier) => /^(\.{0,2}\/|\.{1,2}$)/.test(specifier);

// Returns the path of the skill's file for a specifier, or undefined if it has none. With `isExact`,
// as for `import`, tries no extensions and no folders.
function tryResolve(specifier, base, conditions, isExact) {
  if (isPath(specifier)) {
    const path = join(base, specifier);
    return isExact ? (isModule(path) ? path : undefined) : (resolveFile(path, isModule) ?? resolveFolder(path));
  }
  if (specifier.startsWith("#")) {
    const nearest = nearestPackage(base);
    const imported = nearest.imports && exportTarget(nearest.imports, specifier, conditions);
    return imported && !imported.startsWith("#") ? resolve(imported, nearest.folder, conditions, isExact) : undefined;
  }
  return resolvePackage(specifier, base, conditions);
}

// Returns the path of the skill's file for a specifier. Throws if it has none.
function resolve(specifier, base, conditions, isExact) {
  let reason;
  triedPaths = [];
  try {
    const path = tryResolve(specifier, base, conditions, isExact);
    if (path) {
      return path;
    }
    reason = skippedFileMessage();
  } catch (error) {
    if (!(error instanceof RefusedFileError)) {
      throw error;
    }
    reason = error.message;
  }
  const isPrivate = specifier.startsWith("#");
  if (!isPrivate && !isPath(specifier)) {
    throw unsupported.packageError(specifier, base, reason);
  }
  const path = isPrivate ? specifier : join(base, specifier);
  const message = isExact ? `Cannot find module '${path}' imported from ${base}` : `Cannot find module '${specifier}'`;
  const error = new Error(reason ? `${message}\n[${reason}]` : message);
  throw Object.assign(error, { code: isExact ? "ERR_MODULE_NOT_FOUND" : "MODULE_NOT_FOUND" });
}

class Module {
  constructor(id, parent) {
    this.id = id;
    this.path = folderOf(id);
    this.exports = {};
    this.filename = id;
    this.loaded = false;
    this.children = [];
    this.paths = [];
    Object.defineProperty(this, "parent", { value: parent, enumerable: false });
  }
  require(specifier) {
    return requireFrom(this)(specifier);
  }
}
Module._cache = Object.create(null);
Module.builtinModules = Object.keys(nodeModules);
Module.isBuiltin = isBuiltin;
Module.Module = Module;
Module.createRequire = (from) => {
  const path = String(from).startsWith("file:") ? require("url").fileURLToPath(from) : String(from);
  return requireFrom(new Module(path));
};

const REQUIRE_CONDITIONS = ["require", "node", "default"];
const IMPORT_CONDITIONS = ["import", "node", "default"];

function requireFrom(module) {
  const require = (specifier) => {
    if (typeof specifier !== "string" || specifier === "") {
      const error = new TypeError('The "id" argument must be of type string and not empty');
      throw Object.assign(error, { code: "ERR_INVALID_ARG_VALUE" });
    }
    return builtin(specifier) ?? loadFile(resolve(specifier, module.path, REQUIRE_CONDITIONS, false), module);
  };
  require.resolve = (specifier) =>
    isBuiltin(specifier) ? specifier : resolve(specifier, module.path, REQUIRE_CONDITIONS, false);
  require.cache = Module._cache;
  require.main = Module.main;
  return require;
}

function loadFile(path, parent) {
  const cached = Module._cache[path];
  if (cached) {
    parent?.children.includes(cached) || parent?.children.push(cached);
    return cached.exports;
  }
  const module = new Module(path, parent);
  Module._cache[path] = module;
  parent?.children.push(module);
  try {
    if (isData(path)) {
      module.exports = parseJson(path, readText(path));
    } else if (path.endsWith(".node")) {
      throw unsupported.error(path, "NATIVE", "ERR_DLOPEN_FAILED");
    } else {
      const run = compileCommonJs(path, code(path));
      if (!run) {
        const error = new Error(`require() of the ES module ${path} is not supported; use import()`);
        throw Object.assign(error, { code: "ERR_REQUIRE_ESM" });
      }
      execute(module, run);
    }
  } catch (error) {
    delete Module._cache[path];
    throw error;
  }
  module.loaded = true;
  return module.exports;
}

function execute(module, run) {
  run.call(module.exports, module.exports, requireFrom(module), module, module.filename, module.path);
}

function parseJson(path, source) {
  try {
    return JSON.parse(source);
  } catch (error) {
    error.message = `${path}: ${error.message}`;
    throw error;
  }
}

// Compiles a CommonJS file to a function. Returns undefined if the file is an ES module.
function compileCommonJs(path, source) {
  const type = /\.(mjs|cjs)$/.exec(path)?.[1] ?? nearestPackage(folderOf(path)).type;
  if (type === "mjs" || type === "module") {
    return undefined;
  }
  let body = source.replace(/^#!/, "//");
  for (;;) {
    try {
      return native.compile(`(function (exports, require, module, __filename, __dirname) {${body}\n})`, path);
    } catch (error) {
      const looksLikeModule = /^\s*(import|export)\b|\bimport\.meta\b|\bawait\b/m.test(source);
      if (type === undefined && error instanceof SyntaxError && looksLikeModule) {
        return undefined;
      }
      const changed = withoutAttribute(body, error);
      if (changed === undefined) {
        throw error;
      }
      body = changed;
    }
  }
}

// The attribute of an import of JSON, after the module's name or in an `import()`.
const ATTRIBUTE = (() => {
  const json = String.raw`\{\s{0,99}["']?type["']?\s{0,99}:\s{0,99}["']json["']\s{0,99},?\s{0,99}\}`;
  const after = String.raw`(?<=["']\s{0,9})(?:with|assert)\s*${json}`;
  const inCall = String.raw`,\s*\{\s*(?:with|assert)\s*:\s*${json}\s*,?\s*\}\s*,?\s*(?=\))`;
  return new RegExp(`${after}|${inCall}`, "g");
})();
// The maximum length of an attribute, and of a line with one.
const MAX_ATTRIBUTE = 200;
const MAX_LINE = 20_000;

// QuickJS does not parse attributes of imports. Returns a source without the attribute at which the
// parser stopped, or undefined if the error has another cause.
function withoutAttribute(source, error) {
  const line = error instanceof SyntaxError && /:(\d+):\d+\)?$/m.exec(error.stack)?.[1];
  if (!line) {
    return undefined;
  }
  let start = 0;
  for (let number = 1; number < line; number += 1) {
    start = source.indexOf("\n", start) + 1;
  }
  const lineEnd = source.indexOf("\n", start);
  // An attribute can have further lines. The limit guards against: the time for a line of a megabyte.
  const end = lineEnd < 0 ? source.length : Math.min(lineEnd + MAX_ATTRIBUTE, source.length);
  if (end - start > MAX_LINE) {
    return undefined;
  }
  const text = source.slice(0, end);
  ATTRIBUTE.lastIndex = start;
  const match = ATTRIBUTE.exec(text);
  if (!match || text.slice(start, match.index).includes("\n")) {
    return undefined;
  }
  const rest = source.slice(match.index + match[0].length);
  return source.slice(0, match.index) + match[0].replace(/[^\n]/g, " ") + rest;
}
exports.withoutAttribute = withoutAttribute;

// Returns the module of an import: the path of a file, or `node:NAME`.
exports.resolve = (base, specifier) => {
  if (isBuiltin(specifier)) {
    return `node:${specifier.replace(/^node:/, "")}`;
  }
  if (unsupported.moduleError(specifier)) {
    return `node:${specifier}`;
  }
  const path = specifier.startsWith("file:") ? require("url").fileURLToPath(specifier) : specifier;
  return resolve(path, folderOf(base), IMPORT_CONDITIONS, true);
};

// Returns the text of an ES module, and the properties of its `import.meta`.
exports.load = (name) => {
  if (name.startsWith("node:")) {
    return wrapper(builtin(name));
  }
  if (isData(name)) {
    return { source: "export default import.meta.value;", meta: { value: parseJson(name, readText(name)) } };
  }
  const cached = Module._cache[name];
  if (cached) {
    return wrapper(cached.exports);
  }
  const source = code(name);
  if (compileCommonJs(name, source)) {
    return wrapper(loadFile(name));
  }
  const { pathToFileURL } = require("url");
  return {
    source: source.replace(/^#!/, "//"),
    meta: {
      url: pathToFileURL(name).href,
      filename: name,
      dirname: folderOf(name),
      resolve: (specifier) => {
        const resolved = exports.resolve(name, specifier);
        return resolved.startsWith("/") ? pathToFileURL(resolved).href : resolved;
      },
    },
  };
};

// Returns an ES module that exports the properties of a CommonJS module's `exports`.
function wrapper(value) {
  let source = "const value = import.meta.value; export default value;";
  if (value !== null && (typeof value === "object" || typeof value === "function")) {
    const names = Object.keys(value).filter((name) => name !== "default" && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name));
    names.forEach((name, number) => {
      source += `const v${number} = value.${name}; export { v${number} as ${name} };`;
    });
  }
  return { source, meta: { value } };
}

exports.main = () => {
  const path = native.script;
  const run = compileCommonJs(path, native.scriptSource.replace(/^\ufeff/, ""));
  if (run) {
    const module = new Module(path);
    module.id = ".";
    Module._cache[path] = module;
    Module.main = process.mainModule = module;
    execute(module, run);
    module.loaded = true;
    return;
  }
  isMainPending = true;
  native.compile("(function (path) { return import(path); })", "node:internal/main")(path).then(
    () => {
      isMainPending = false;
    },
    (error) => {
      isMainPending = false;
      require("timers").uncaught(error, "uncaughtException");
    },
  );
};

// Returns whether the script's ES module has not finished: a top-level `await` is pending.
exports.isMainPending = () => isMainPending;
