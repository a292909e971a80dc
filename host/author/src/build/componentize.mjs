// Bundles the packages that `src` imports, and compiles `src/tool.js` with componentize-js.
// The modules of `src` are not bundled, so that errors name their lines.
//
// Runs in an environment of `javascript.rs`. Arguments: the folder of the WIT package, the file of
// the component, and the world's name if the project asks for the network.
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { join, relative, resolve } from "node:path";

const [ownWit, out, networkWorld] = process.argv.slice(2);
const COMPILER = "./node_modules/@bytecodealliance/componentize-js";
// Features that the compiler would import even if nothing uses them. `http` has `fetch`.
const DISABLED_FEATURES = networkWorld ? ["fetch-event"] : ["http", "fetch-event"];
// The kit's module for requests. Without the network, the component lacks what this module imports.
const HTTP_MODULE = /(^|\/)skillhost-http\.js$/;
// The maximum size of JavaScript in the project, and in packages. Guards against: data that takes
// up the memory of each call, which has 64 MiB.
const MAX_CODE_BYTES = 10 << 20;
// Modules of Node.js that have a pure JavaScript package of the same name on npm.
const ON_NPM = [
  "assert", "buffer", "events", "process", "punycode", "querystring", "string_decoder", "url", "util",
];
// The maximum number of errors and names to show.
const MAX_SHOWN = 20;

// An error with a message for the author: the location, the cause, and advice.
class Refusal extends Error {}

// Parses and translates source files.
class Sources {
  constructor(acorn, regexpu) {
    this.acorn = acorn;
    this.regexpu = regexpu;
  }

  // Translates the regular expressions of a module for the engine. It has no tables of Unicode
  // properties, so `\p{…}` becomes the characters themselves.
  lower(code, file) {
    if (!/\\[pP]\{/.test(code)) {
      return code;
    }
    const tokens = [];
    const parse = (sourceType) => {
      tokens.length = 0;
      this.acorn.parse(code, {
        ecmaVersion: "latest", sourceType, onToken: tokens, locations: true,
        allowHashBang: true, allowReturnOutsideFunction: true,
      });
    };
    try {
      parse("module");
    } catch {
      try {
        parse("script");
      } catch {
        // The bundler reports the error.
        return code;
      }
    }
    let lowered = "";
    let end = 0;
    for (const token of tokens) {
      const text = code.slice(token.start, token.end);
      if (!/\\[pP]\{/.test(text)) {
        continue;
      }
      const location = `${file}:${token.loc.start.line}`;
      if (token.type.label !== "regexp") {
        console.error(
          `${location}: a string has \`\\p{…}\`, which the engine cannot use in a regular expression; ` +
            "write a literal, `/\\p{…}/u`, which the build translates",
        );
        continue;
      }
      const { pattern, flags } = token.value;
      if (!/[uv]/.test(flags)) {
        continue;
      }
      try {
        const plain = this.regexpu(pattern, flags, {
          unicodePropertyEscapes: "transform",
          unicodeSetsFlag: "transform",
        });
        lowered += `${code.slice(end, token.start)}/${plain}/${flags.replace("v", "u")}`;
        end = token.end;
      } catch (error) {
        throw new Refusal(`${location}: invalid regular expression: ${error.message}`);
      }
    }
    return lowered + code.slice(end);
  }

  parse(code, file) {
    try {
      return this.acorn.parse(code, {
        ecmaVersion: "latest", sourceType: "module", locations: true,
      });
    } catch (error) {
      throw new Refusal(`${file}:${error.loc?.line ?? 1}: SyntaxError: ${error.message}`);
    }
  }

  // Returns the packages that a module imports, with the imported names, and the position of the
  // package's name.
  imports(code, file) {
    const tree = this.parse(code, file);
    const imports = [];
    const add = (source, names) => {
      const name = source.value;
      if (!networkWorld && HTTP_MODULE.test(name)) {
        throw new Refusal(
          `${file}:${source.loc.start.line}: it imports \`${name}\`, and the project asks for no ` +
            "network: add `[[network]]` to `needs.toml`",
        );
      }
      // Names such as `wasi:…` are imports of the component.
      const isBare = /^[^./]/.test(name) && (!name.includes(":") || name.startsWith("node:"));
      if (isBare) {
        const { start, end, loc } = source;
        imports.push({ name, names, start, end, line: loc.start.line });
      }
    };
    const nameOf = (it) => it.value ?? it.name;
    for (const node of tree.body) {
      if (node.type === "ImportDeclaration") {
        add(node.source, node.specifiers.map((it) => {
          switch (it.type) {
            case "ImportDefaultSpecifier":
              return "default";
            case "ImportNamespaceSpecifier":
              return "*";
            default:
              return nameOf(it.imported);
          }
        }));
      } else if (node.type === "ExportNamedDeclaration" && node.source) {
        add(node.source, node.specifiers.map((it) => nameOf(it.local)));
      } else if (node.type === "ExportAllDeclaration") {
        add(node.source, ["*"]);
      }
    }
    return imports;
  }
}

// Returns the JavaScript modules in a folder.
function modules(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      return modules(path);
    }
    return /\.m?js$/.test(entry.name) ? [path] : [];
  });
}

// Bundles the packages that modules in `src` import into `packages`, and rewrites the imports to
// use that folder.
async function bundle() {
  rmSync("packages", { recursive: true, force: true });
  const acorn = await importInstalled("acorn");
  const regexpu = await importInstalled("regexpu-core");
  if (!acorn || !regexpu) {
    // The project is older than the support for packages.
    return;
  }
  checkLength(modules("src").map((file) => [file, statSync(file).size]),
    "Put data into the skill, where a call reads it");
  const sources = new Sources(acorn, regexpu.default);
  const pinned = JSON.parse(readFileSync("package.json", "utf8")).dependencies ?? {};
  const wanted = new Map();
  for (const file of modules("src")) {
    const code = readFileSync(file, "utf8");
    let changed = "";
    let end = 0;
    for (const { name, names, start, end: after, line } of sources.imports(code, file)) {
      if (isBuiltin(name) && !(name in pinned)) {
        throw new Refusal(
          `${file}:${line}: it imports \`${name}\`, a part of Node.js. A tool has no Node.js: ` +
            `read files with the kit, and use npm packages that need no Node.js${npmAdvice(name)}`,
        );
      }
      const entry = wanted.get(name) ?? { names: new Set(), location: `${file}:${line}` };
      names.forEach((it) => entry.names.add(it));
      wanted.set(name, entry);
      const target = `${"../".repeat(file.split("/").length - 1)}packages/${outputName(name)}.js`;
      changed += code.slice(end, start) + JSON.stringify(target);
      end = after;
    }
    const lowered = sources.lower(changed + code.slice(end), file);
    if (lowered !== code) {
      writeFileSync(file, lowered);
    }
  }
  if (wanted.size > 0) {
    await bundlePackages(sources, wanted, Object.keys(pinned));
  }
}

// Returns advice on a part of Node.js that is also an npm package, or an empty string.
function npmAdvice(name) {
  const plain = name.replace(/^node:/, "");
  return ON_NPM.includes(plain)
    ? `. \`skillhost add-library ${plain}\` pins one, which is imported as \`${plain}\``
    : "";
}

// Returns the name of a package's bundle.
function outputName(name) {
  return name.replace(/[^A-Za-z0-9.-]/g, "_");
}

// Bundles packages with esbuild into the folder `packages`.
async function bundlePackages(sources, wanted, pinned) {
  const esbuild = await importInstalled("esbuild");
  if (!esbuild) {
    const [[name, { location }]] = wanted;
    throw new Refusal(
      `${location}: it imports the package \`${name}\`, but \`package.json\` does not name the ` +
        "bundler: copy its `devDependencies`, and `package-lock.json`, from a new project",
    );
  }
  // Makes an entry module for each package that imports the wanted names, because a CommonJS package
  // has no other list of its exports.
  const entryModules = {
    name: "packages",
    setup(build) {
      build.onResolve({ filter: /^package:/ }, ({ path }) => ({ path: path.slice(8), namespace: "own" }));
      build.onLoad({ filter: /.*/, namespace: "own" }, ({ path }) => {
        const { names, location } = wanted.get(path);
        const from = JSON.stringify(path);
        let contents = names.has("*") || names.size === 0 ? `export * from ${from};` : "";
        [...names].filter((name) => name !== "*").forEach((name, at) => {
          // The bundler checks only the names of ES modules. Other names are checked when the
          // compiler runs the bundle.
          const message = `${location}: the package \`${path}\` exports no \`${name}\``;
          contents += `import { ${JSON.stringify(name)} as it${at} } from ${from};` +
            `if (it${at} === undefined) throw new TypeError(${JSON.stringify(message)});` +
            `export { it${at} as ${JSON.stringify(name)} };`;
        });
        return { contents, resolveDir: process.cwd() };
      });
      build.onLoad({ filter: /\.[cm]?js$/, namespace: "file" }, ({ path }) => {
        const code = readFileSync(path, "utf8");
        const contents = sources.lower(code, relative(process.cwd(), path));
        return contents === code ? undefined : { contents };
      });
    },
  };
  let result;
  try {
    result = await esbuild.build({
      entryPoints: [...wanted.keys()].map((name) => ({ in: `package:${name}`, out: outputName(name) })),
      bundle: true, splitting: true, format: "esm", platform: "browser", target: "es2022",
      // Some packages have a browser variant that needs the `document` of a page.
      conditions: ["worker", "module"], charset: "utf8", outdir: "packages", write: false, metafile: true, logLevel: "silent",
      define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
      plugins: [entryModules],
    });
  } catch (error) {
    if (!error.errors) {
      throw error;
    }
    throw new Refusal(error.errors.slice(0, MAX_SHOWN).map((it) => explain(it, wanted, pinned)).join("\n"));
  }
  const sizes = new Map();
  for (const output of Object.values(result.metafile.outputs)) {
    for (const [file, { bytesInOutput }] of Object.entries(output.inputs)) {
      const name = `the package \`${owner(file) ?? file}\``;
      sizes.set(name, (sizes.get(name) ?? 0) + bytesInOutput);
    }
  }
  checkLength([...sizes], "Import a part of it (`package/part`), or choose a smaller one");
  mkdirSync("packages");
  for (const { path, contents } of result.outputFiles) {
    writeFileSync(path, contents);
  }
}

// Returns the package that a file belongs to.
function owner(file) {
  const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file) ?? [];
  return name;
}

// Returns a message about an error of the bundler, with advice for tool authors.
function explain({ text, location }, wanted, pinned) {
  const file = location?.file ?? "";
  const isEntry = file.startsWith("own:");
  const place = isEntry
    ? wanted.get(file.slice(4))?.location
    : `${file}:${location?.line ?? 1}`;
  const from = isEntry ? "it" : `the package \`${owner(file)}\``;
  const [, missing] = /^Could not resolve "(.*)"$/.exec(text) ?? [];
  if (missing !== undefined && isBuiltin(missing)) {
    return `${place}: ${from} imports \`${missing}\`, a part of Node.js. A tool has no Node.js: ` +
      `choose a package that also runs in browsers${npmAdvice(missing)}`;
  }
  if (missing !== undefined && isEntry) {
    return `${place}: it imports \`${missing}\`, but no package of that name is installed; ` +
      `pin it with \`skillhost add-library ${missing}\`` +
      (pinned.length > 0 ? `; pinned are ${pinned.slice(0, MAX_SHOWN).join(", ")}` : "");
  }
  if (/No loader is configured for "\.(node|wasm)" files/.test(text)) {
    return `${place}: ${from} needs native code, which no tool can run: choose a package of ` +
      "pure JavaScript";
  }
  return `${place}: ${text}`;
}

// Refuses too much JavaScript. `sizes` lists pairs of a name and a number of bytes.
function checkLength(sizes, advice) {
  const length = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
  if (length <= MAX_CODE_BYTES) {
    return;
  }
  const megabytes = (bytes) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
  const largest = sizes.sort(([, one], [, other]) => other - one).slice(0, 3);
  throw new Refusal(
    `${largest.map(([name, bytes]) => `${name} is ${megabytes(bytes)}`).join(", ")}: in total ` +
      `${megabytes(length)} of JavaScript, but a tool may have ${megabytes(MAX_CODE_BYTES)}. ${advice}`,
  );
}

// Imports a package of the kit. Returns undefined if the project's lock file does not name it.
async function importInstalled(name) {
  try {
    return await import(import.meta.resolve(name));
  } catch (error) {
    if (error.code === "ERR_MODULE_NOT_FOUND") {
      return undefined;
    }
    throw error;
  }
}

// Returns the folder of the WIT package to compile for, and its world if it has several. For the
// network, also adds a world that imports `wasi:http`.
function witWithNetwork() {
  if (!networkWorld || !existsSync(join(ownWit, "deps/wasi-http"))) {
    return [ownWit];
  }
  const texts = readdirSync(ownWit).filter((name) => name.endsWith(".wit"));
  const names = texts.map((name) => /^package ([^;]+);/m.exec(readFileSync(join(ownWit, name), "utf8")));
  const [, packageName] = names.find(Boolean);
  rmSync("wit", { recursive: true, force: true });
  cpSync(ownWit, "wit", { recursive: true });
  const world = `${networkWorld}-with-network`;
  writeFileSync("wit/skillhost-network.wit",
    `package ${packageName};\nworld ${world} {\n` +
      `  include ${networkWorld};\n  import wasi:http/outgoing-handler@0.2.0;\n}\n`);
  return [resolve("wit"), world];
}

// The ids of the sections that hold the engine's state after it has read `src`: memory, globals, and
// the number and content of data segments. An edit of `src` changes only these.
const STATE_SECTIONS = new Set([5, 6, 11, 12]);

// Returns the sections of a core module, each with its id.
function sections(module) {
  const all = [];
  for (let at = 8; at < module.length; ) {
    const start = at;
    const kind = module[at++];
    let length = 0;
    for (let shift = 0, more = true; more; shift += 7) {
      const byte = module[at++];
      length += (byte & 0x7f) * 2 ** shift;
      more = byte >= 0x80;
    }
    at += length;
    all.push({ kind, bytes: module.subarray(start, at) });
  }
  return all;
}

// Caches the results of two steps of componentize-js that take most of its time. One adds bindings to
// the engine, the other removes disabled imports. Except for the engine's state, the results depend
// only on the WIT package.
async function cacheEngine(wit) {
  const { splicer } = await import(`${COMPILER}/lib/spidermonkey-embedding-splicer.js`);
  const { spliceBindings, stubWasi } = splicer;
  const hash = createHash("sha256").update(readFileSync(`${COMPILER}/package.json`));
  const add = (folder) => {
    for (const name of readdirSync(folder).sort()) {
      const path = join(folder, name);
      if (statSync(path).isDirectory()) {
        add(path);
      } else {
        hash.update(`${relative(wit, path)}\0`).update(readFileSync(path)).update("\0");
      }
    }
  };
  add(wit);
  const keyOf = (options, parts) => {
    const key = hash.copy().update(JSON.stringify(options));
    parts.forEach((part) => key.update(part));
    return key.digest("hex");
  };
  // Returns a cached module and its record, or undefined.
  const load = (name, key) => {
    try {
      const { key: storedKey, record } = JSON.parse(readFileSync(`${name}.json`, "utf8"));
      return storedKey === key ? { record, module: readFileSync(`${name}.wasm`) } : undefined;
    } catch {
      // The entry is missing or incomplete.
      return undefined;
    }
  };
  const store = (name, key, module, record) => {
    rmSync(`${name}.json`, { force: true });
    writeFileSync(`${name}.wasm`, module);
    writeFileSync(`${name}.json`, JSON.stringify({ key, record }));
  };

  splicer.spliceBindings = (engine, features, source, path, world, debug) => {
    const key = keyOf([features, source, world, debug], []);
    const cached = load("engine", key);
    if (cached) {
      return { ...cached.record, wasm: cached.module };
    }
    const { wasm, ...record } = spliceBindings(engine, features, source, path, world, debug);
    store("engine", key, wasm, record);
    return { ...record, wasm };
  };

  splicer.stubWasi = (module, features, source, path, world) => {
    const original = sections(module);
    const state = (all) => all.filter(({ kind }) => STATE_SECTIONS.has(kind));
    const rest = original.filter(({ kind }) => !STATE_SECTIONS.has(kind));
    const key = keyOf([features, source, world], rest.map(({ bytes }) => bytes));
    const cached = load("stubbed", key);
    if (cached) {
      const states = state(original);
      const merged = sections(cached.module).map(({ kind, bytes }) =>
        STATE_SECTIONS.has(kind) ? states.shift().bytes : bytes,
      );
      return Buffer.concat([module.subarray(0, 8), ...merged]);
    }
    const stubbed = stubWasi(module, features, source, path, world);
    const [before, after] = [original, sections(stubbed)].map((all) => state(all));
    const isSame = before.length === after.length &&
      before.every(({ kind, bytes }, at) => {
        return kind === after[at].kind && Buffer.compare(bytes, after[at].bytes) === 0;
      });
    // A step that changes the state cannot be cached.
    if (isSame) {
      store("stubbed", key, stubbed);
    }
    return stubbed;
  };
}

try {
  await bundle();
  const [wit, worldName] = witWithNetwork();
  await cacheEngine(wit);
  const { componentize } = await import(`${COMPILER}/src/componentize.js`);
  const { component } = await componentize({
    sourcePath: "src/tool.js",
    witPath: resolve(wit),
    worldName,
    disableFeatures: DISABLED_FEATURES,
  });
  writeFileSync(out, component);
} catch (error) {
  console.error(error instanceof Refusal ? error.message : (error?.message ?? String(error)));
  process.exitCode = 1;
}
