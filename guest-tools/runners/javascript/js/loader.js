// Modules: of Node, of the skill in both forms, and JSON.
const process = require("process");
const lacks = require("lacks");

const own = {
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
  ...lacks.modules,
};
const builtins = new Map();
// The text of files that decide what runs, as the host has it.
const sources = new Map();
// Paths at which an import looked, and the skill has no file on the disk.
let missed = [];
let waiting = false;

// A module of Node; undefined if there is none of that name.
function builtin(specifier) {
  const hasScheme = specifier.startsWith("node:");
  const name = hasScheme ? specifier.slice(5) : specifier;
  if (builtins.has(name)) {
    return builtins.get(name);
  }
  if (Object.hasOwn(own, name)) {
    builtins.set(name, own[name]());
    return builtins.get(name);
  }
  const refusal = lacks.missing(name);
  if (refusal) {
    throw refusal;
  }
  if (hasScheme) {
    const error = new Error(`No such built-in module: ${specifier}`);
    throw Object.assign(error, { code: "ERR_UNKNOWN_BUILTIN_MODULE" });
  }
}
const isBuiltin = (name) =>
  Object.hasOwn(own, name.replace(/^node:/, "")) || name.startsWith("node:");

function isFile(path) {
  try {
    return native.stat(path, true)[0] === 0;
  } catch {
    return false;
  }
}
const inside = (path) => path.replace(`${native.folder}/`, "");
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

// A file that the host does not give, for example because the call changed it.
class Refused extends Error {
  constructor(path, why) {
    super(`${inside(path)}: not run as code: ${why}`);
    this.code = "MODULE_NOT_FOUND";
    native.note(this.message);
  }
}

// What the skill has at a path on the disk: its kind, and the text of a module.
function onDisk(path) {
  const [kind, text] = native.loadModule(path);
  if (kind === "refused") {
    throw new Refused(path, text);
  }
  return [kind, text];
}
const isFolder = (path) => onDisk(path)[0] === "folder";

// The text of a file that decides what runs; undefined if the skill does not have it on the disk.
// What the call wrote, be it an input or a file that a script made, is data.
function code(path) {
  if (!sources.has(path)) {
    // Those of the script are the bytes that the host has let this call run.
    const found = path === native.script ? native.scriptSource : onDisk(path)[1];
    if (found === undefined) {
      missed.push(path);
      return undefined;
    }
    sources.set(path, found.replace(/^\ufeff/, ""));
  }
  return sources.get(path);
}
const isCode = (path) => code(path) !== undefined;
const isData = (path) => path.endsWith(".json");
// Data may be the call's own if it is asked for by its path, and so takes no other's place.
const isModule = (path) => (isData(path) ? isFile(path) : isCode(path));

function text(path) {
  return require("fs").readFileSync(path, "utf8").replace(/^\ufeff/, "");
}

// What a package says of itself; undefined without one.
function description(folder) {
  const found = code(`${folder}/package.json`);
  return found === undefined ? undefined : JSON.parse(found);
}

// Why an import passed over a file that the call wrote, if it did.
function refusal() {
  const written = missed.findLast(isFile);
  return written && `${inside(written)}: not run as code: only files that the skill has on the disk are, and this call wrote the file; a script can read it`;
}

// The nearest package.json inside the skill.
function manifest(folder) {
  for (let at = folder; at.startsWith(native.folder); at = folderOf(at)) {
    const found = description(at);
    if (found) {
      return { folder: at, ...found };
    }
    if (at.endsWith("/node_modules")) {
      break;
    }
  }
  return {};
}

function asFile(path, isFound = isCode) {
  return isFound(path) ? path : [".js", ".json", ".cjs", ".mjs"].map((end) => path + end).find(isCode);
}

function asFolder(path) {
  if (!isFolder(path)) {
    return undefined;
  }
  const main = description(path)?.main;
  const found = main && (asFile(join(path, main)) ?? asFile(join(path, `${main}/index`)));
  if (found) {
    return found;
  }
  return asFile(`${path}/index`);
}

// The target of a package's `exports` or `imports` under one name.
function target(table, name, conditions) {
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
    const [before, after] = key.split("*");
    if (after !== undefined && name.startsWith(before) && name.endsWith(after)) {
      const part = name.slice(before.length, name.length - after.length);
      return choose(table[key])?.replaceAll("*", part);
    }
  }
}

function inPackages(specifier, base, conditions) {
  const [, name, rest] = /^(@[^/]+\/[^/]+|[^/]+)(.*)$/.exec(specifier) ?? [, specifier, ""];
  for (let at = base; at.startsWith(native.folder); at = folderOf(at)) {
    const folder = `${at}/node_modules/${name}`;
    if (isFolder(folder)) {
      const exported = description(folder)?.exports;
      if (exported) {
        const found = target(exported, `.${rest}`, conditions);
        if (found && isCode(join(folder, found))) {
          return join(folder, found);
        }
      } else {
        const found = rest ? (asFile(folder + rest) ?? asFolder(folder + rest)) : asFolder(folder);
        if (found) {
          return found;
        }
      }
    }
  }
}

const isPath = (specifier) => /^(\.{0,2}\/|\.{1,2}$)/.test(specifier);

// The path of a file of the skill; undefined if it has none.
function search(specifier, base, conditions, exact) {
  if (isPath(specifier)) {
    const path = join(base, specifier);
    return exact ? (isModule(path) ? path : undefined) : (asFile(path, isModule) ?? asFolder(path));
  }
  if (specifier.startsWith("#")) {
    const own = manifest(base);
    const imported = own.imports && target(own.imports, specifier, conditions);
    return imported && !imported.startsWith("#") ? find(imported, own.folder, conditions, exact) : undefined;
  }
  return inPackages(specifier, base, conditions);
}

// The path of a file of the skill.
function find(specifier, base, conditions, exact) {
  let why;
  missed = [];
  try {
    const found = search(specifier, base, conditions, exact);
    if (found) {
      return found;
    }
    why = refusal();
  } catch (error) {
    if (!(error instanceof Refused)) {
      throw error;
    }
    why = error.message;
  }
  const isOwn = specifier.startsWith("#");
  if (!isOwn && !isPath(specifier)) {
    throw lacks.package(specifier, base, why);
  }
  const path = isOwn ? specifier : join(base, specifier);
  const missing = exact ? `Cannot find module '${path}' imported from ${base}` : `Cannot find module '${specifier}'`;
  const error = new Error(why ? `${missing}\n[${why}]` : missing);
  throw Object.assign(error, { code: exact ? "ERR_MODULE_NOT_FOUND" : "MODULE_NOT_FOUND" });
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
Module.builtinModules = Object.keys(own);
Module.isBuiltin = isBuiltin;
Module.Module = Module;
Module.createRequire = (from) => {
  const path = String(from).startsWith("file:") ? require("url").fileURLToPath(from) : String(from);
  return requireFrom(new Module(path));
};

const REQUIRE = ["require", "node", "default"];
const IMPORT = ["import", "node", "default"];

function requireFrom(module) {
  const require = (specifier) => {
    if (typeof specifier !== "string" || specifier === "") {
      const error = new TypeError('The "id" argument must be of type string and not empty');
      throw Object.assign(error, { code: "ERR_INVALID_ARG_VALUE" });
    }
    const found = builtin(specifier);
    return found ?? loadFile(find(specifier, module.path, REQUIRE, false), module);
  };
  require.resolve = (specifier) =>
    isBuiltin(specifier) ? specifier : find(specifier, module.path, REQUIRE, false);
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
      module.exports = json(path, text(path));
    } else if (path.endsWith(".node")) {
      throw lacks.refuse(path, "NATIVE", "ERR_DLOPEN_FAILED");
    } else {
      const make = script(path, code(path));
      if (!make) {
        const error = new Error(`require() of the ES module ${path} is not there; use import()`);
        throw Object.assign(error, { code: "ERR_REQUIRE_ESM" });
      }
      execute(module, make);
    }
  } catch (error) {
    delete Module._cache[path];
    throw error;
  }
  module.loaded = true;
  return module.exports;
}

function execute(module, make) {
  make.call(module.exports, module.exports, requireFrom(module), module, module.filename, module.path);
}

function json(path, source) {
  try {
    return JSON.parse(source);
  } catch (error) {
    error.message = `${path}: ${error.message}`;
    throw error;
  }
}

// A file as a function of CommonJS; undefined if it is an ES module.
function script(path, source) {
  const form = /\.(mjs|cjs)$/.exec(path)?.[1] ?? manifest(folderOf(path)).type;
  if (form === "mjs" || form === "module") {
    return undefined;
  }
  const body = source.replace(/^#!/, "//");
  try {
    return native.compile(`(function (exports, require, module, __filename, __dirname) {${body}\n})`, path);
  } catch (error) {
    const looksLikeModule = /^\s*(import|export)\b|\bimport\.meta\b|\bawait\b/m.test(source);
    if (form === undefined && error instanceof SyntaxError && looksLikeModule) {
      return undefined;
    }
    throw error;
  }
}

// Where an import leads: the path of a file, or `node:NAME`.
exports.resolve = (base, specifier) => {
  if (isBuiltin(specifier)) {
    return `node:${specifier.replace(/^node:/, "")}`;
  }
  if (lacks.missing(specifier)) {
    return `node:${specifier}`;
  }
  const path = specifier.startsWith("file:") ? require("url").fileURLToPath(specifier) : specifier;
  return find(path, folderOf(base), IMPORT, true);
};

// The text of an ES module, and what its `import.meta` has.
exports.load = (name) => {
  if (name.startsWith("node:")) {
    return wrapper(builtin(name));
  }
  if (isData(name)) {
    return { source: "export default import.meta.value;", meta: { value: json(name, text(name)) } };
  }
  const cached = Module._cache[name];
  if (cached) {
    return wrapper(cached.exports);
  }
  const source = code(name);
  if (script(name, source)) {
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
        const found = exports.resolve(name, specifier);
        return found.startsWith("/") ? pathToFileURL(found).href : found;
      },
    },
  };
};

// An ES module that exports what a module of the other form does.
function wrapper(value) {
  let source = "const it = import.meta.value; export default it;";
  if (value !== null && (typeof value === "object" || typeof value === "function")) {
    const names = Object.keys(value).filter((name) => name !== "default" && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name));
    names.forEach((name, number) => {
      source += `const v${number} = it.${name}; export { v${number} as ${name} };`;
    });
  }
  return { source, meta: { value } };
}

exports.main = () => {
  const path = native.script;
  const make = script(path, native.scriptSource.replace(/^\ufeff/, ""));
  if (make) {
    const module = new Module(path);
    module.id = ".";
    Module._cache[path] = module;
    Module.main = process.mainModule = module;
    execute(module, make);
    module.loaded = true;
    return;
  }
  waiting = true;
  native.compile("(function (path) { return import(path); })", "node:internal/main")(path).then(
    () => {
      waiting = false;
    },
    (error) => {
      waiting = false;
      require("timers").uncaught(error, "uncaughtException");
    },
  );
};

// Whether the script's own `await` waits for what never comes.
exports.isWaiting = () => waiting;
