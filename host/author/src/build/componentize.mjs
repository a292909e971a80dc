// Compiles `src/tool.js` in the folder that it starts in, an environment of
// `javascript.rs`: bundles the packages that `src` imports, and runs componentize-js.
// The modules of `src` stay apart, so that errors name their lines.
//
// Arguments: the folder of the WIT package, and the file of the component.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { join, relative, resolve } from "node:path";

const [wit, out] = process.argv.slice(2);
const COMPILER = "./node_modules/@bytecodealliance/componentize-js";
// The compiler imports these two even if nothing uses them.
const WITHOUT = ["http", "fetch-event"];
// The most bytes of JavaScript, of the project and of packages each. Guards against: data
// that each call, which has 64 MiB of memory, would carry.
const MAX_CODE = 10 << 20;
// Parts of Node.js for which npm has a package of the same name, in JavaScript alone.
const ON_NPM = [
  "assert", "buffer", "events", "process", "punycode", "querystring", "string_decoder", "url", "util",
];
// The most errors that are shown of one build.
const MAX_SHOWN = 20;

// An error that is shown as it is: what is wrong, where, and what to do.
class Refusal extends Error {}

class Sources {
  constructor(acorn, regexpu) {
    this.acorn = acorn;
    this.regexpu = regexpu;
  }

  // A module's code, with regular expressions that the engine can run: it has no tables of
  // Unicode properties, so that `\p{…}` becomes the characters themselves.
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
        // The bundler names the place.
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
      const place = `${file}:${token.loc.start.line}`;
      if (token.type.label !== "regexp") {
        console.error(
          `${place}: a text has \`\\p{…}\`. The engine cannot make a regular expression of it; ` +
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
        throw new Refusal(`${place}: a regular expression that no engine knows: ${error.message}`);
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

  // What a module of the project imports from packages: the names, and where the name of
  // the package stands.
  imports(code, file) {
    const tree = this.parse(code, file);
    const found = [];
    const add = (source, names) => {
      const name = source.value;
      // `wasi:…` and the like are imports of the component.
      const isBare = /^[^./]/.test(name) && (!name.includes(":") || name.startsWith("node:"));
      if (isBare) {
        const { start, end, loc } = source;
        found.push({ name, names, start, end, line: loc.start.line });
      }
    };
    const named = (it) => it.value ?? it.name;
    for (const node of tree.body) {
      if (node.type === "ImportDeclaration") {
        add(node.source, node.specifiers.map((it) => {
          switch (it.type) {
            case "ImportDefaultSpecifier":
              return "default";
            case "ImportNamespaceSpecifier":
              return "*";
            default:
              return named(it.imported);
          }
        }));
      } else if (node.type === "ExportNamedDeclaration" && node.source) {
        add(node.source, node.specifiers.map((it) => named(it.local)));
      } else if (node.type === "ExportAllDeclaration") {
        add(node.source, ["*"]);
      }
    }
    return found;
  }
}

function modules(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      return modules(path);
    }
    return /\.m?js$/.test(entry.name) ? [path] : [];
  });
}

// Bundles the packages that the modules in `src` import into `packages`, and makes the
// modules import from there.
async function bundle() {
  rmSync("packages", { recursive: true, force: true });
  const acorn = await installed("acorn");
  const regexpu = await installed("regexpu-core");
  if (!acorn || !regexpu) {
    // A project that was made before packages were bundled.
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
            `its kit reads files, and packages of npm that need no Node.js do the rest${onNpm(name)}`,
        );
      }
      const at = wanted.get(name) ?? { names: new Set(), place: `${file}:${line}` };
      names.forEach((it) => at.names.add(it));
      wanted.set(name, at);
      const to = `${"../".repeat(file.split("/").length - 1)}packages/${output(name)}.js`;
      changed += code.slice(end, start) + JSON.stringify(to);
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

// What to do about a part of Node.js that is a package, too.
function onNpm(name) {
  const plain = name.replace(/^node:/, "");
  return ON_NPM.includes(plain)
    ? `. \`skillhost add-library ${plain}\` pins one, which is imported as \`${plain}\``
    : "";
}

function output(name) {
  return name.replace(/[^A-Za-z0-9.-]/g, "_");
}

async function bundlePackages(sources, wanted, pinned) {
  const esbuild = await installed("esbuild");
  if (!esbuild) {
    const [[name, { place }]] = wanted;
    throw new Refusal(
      `${place}: it imports the package \`${name}\`, and \`package.json\` does not name the ` +
        "bundler: copy its `devDependencies`, and `package-lock.json`, from a new project",
    );
  }
  // A module for each package: a CommonJS package has names only where somebody asks for them.
  const own = {
    name: "packages",
    setup(build) {
      build.onResolve({ filter: /^package:/ }, ({ path }) => ({ path: path.slice(8), namespace: "own" }));
      build.onLoad({ filter: /.*/, namespace: "own" }, ({ path }) => {
        const { names, place } = wanted.get(path);
        const from = JSON.stringify(path);
        let contents = names.has("*") || names.size === 0 ? `export * from ${from};` : "";
        [...names].filter((name) => name !== "*").forEach((name, at) => {
          // The bundler knows the names of ES modules alone. The others are looked at when the
          // compiler runs the bundle.
          const wrong = `${place}: the package \`${path}\` exports no \`${name}\``;
          contents += `import { ${JSON.stringify(name)} as it${at} } from ${from};` +
            `if (it${at} === undefined) throw new TypeError(${JSON.stringify(wrong)});` +
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
      entryPoints: [...wanted.keys()].map((name) => ({ in: `package:${name}`, out: output(name) })),
      bundle: true, splitting: true, format: "esm", platform: "browser", target: "es2022",
      // Some packages have a variant for browsers that needs a page's `document`.
      conditions: ["worker", "module"], charset: "utf8", outdir: "packages", write: false, metafile: true, logLevel: "silent",
      define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
      plugins: [own],
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

// The package that a file belongs to.
function owner(file) {
  const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file) ?? [];
  return name;
}

// Says what an error of the bundler means for a tool.
function explain({ text, location }, wanted, pinned) {
  const file = location?.file ?? "";
  const isOwn = file.startsWith("own:");
  const place = isOwn ? wanted.get(file.slice(4))?.place : `${file}:${location?.line ?? 1}`;
  const from = isOwn ? "it" : `the package \`${owner(file)}\``;
  const [, missing] = /^Could not resolve "(.*)"$/.exec(text) ?? [];
  if (missing !== undefined && isBuiltin(missing)) {
    return `${place}: ${from} imports \`${missing}\`, a part of Node.js. A tool has no Node.js: ` +
      `choose a package that also runs in browsers${onNpm(missing)}`;
  }
  if (missing !== undefined && isOwn) {
    return `${place}: it imports \`${missing}\`, and no package of that name is installed; ` +
      `pin it with \`skillhost add-library ${missing}\`` +
      (pinned.length > 0 ? `; pinned are ${pinned.slice(0, MAX_SHOWN).join(", ")}` : "");
  }
  if (/No loader is configured for "\.(node|wasm)" files/.test(text)) {
    return `${place}: ${from} needs native code, which no tool can run: choose one that is ` +
      "JavaScript alone";
  }
  return `${place}: ${text}`;
}

// Refuses more JavaScript than a tool may have. `sizes` pairs names with bytes.
function checkLength(sizes, advice) {
  const length = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
  if (length <= MAX_CODE) {
    return;
  }
  const megabytes = (bytes) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
  const largest = sizes.sort(([, one], [, other]) => other - one).slice(0, 3);
  throw new Refusal(
    `${largest.map(([name, bytes]) => `${name} is ${megabytes(bytes)}`).join(", ")}: it comes to ` +
      `${megabytes(length)} of JavaScript, and a tool may have ${megabytes(MAX_CODE)}. ${advice}`,
  );
}

// A package of the kit, unless the project's lock has none.
async function installed(name) {
  try {
    return await import(import.meta.resolve(name));
  } catch (error) {
    if (error.code === "ERR_MODULE_NOT_FOUND") {
      return undefined;
    }
    throw error;
  }
}

// Sections of a core module that hold the state of the engine after it read `src`: memory,
// globals, the number of data segments, and the segments. An edit changes nothing else.
const STATE = new Set([5, 6, 11, 12]);

// The sections of a core module, each with its kind.
function sections(module) {
  const found = [];
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
    found.push({ kind, bytes: module.subarray(start, at) });
  }
  return found;
}

// Keeps what two steps of componentize-js make, which take most of its time, and depend on
// the WIT package alone but for the engine's state: the engine with bindings in it, and the
// engine without what the component must not import.
async function keepEngine() {
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
  // Returns what is kept under a key: a module, and a record beside it.
  const kept = (name, key) => {
    try {
      const { key: found, record } = JSON.parse(readFileSync(`${name}.json`, "utf8"));
      return found === key ? { record, module: readFileSync(`${name}.wasm`) } : undefined;
    } catch {
      // There is none, or not a whole one.
      return undefined;
    }
  };
  const keep = (name, key, module, record) => {
    rmSync(`${name}.json`, { force: true });
    writeFileSync(`${name}.wasm`, module);
    writeFileSync(`${name}.json`, JSON.stringify({ key, record }));
  };

  splicer.spliceBindings = (engine, features, source, path, world, debug) => {
    const key = keyOf([features, source, world, debug], []);
    const found = kept("engine", key);
    if (found) {
      return { ...found.record, wasm: found.module };
    }
    const { wasm, ...record } = spliceBindings(engine, features, source, path, world, debug);
    keep("engine", key, wasm, record);
    return { ...record, wasm };
  };

  splicer.stubWasi = (module, features, source, path, world) => {
    const own = sections(module);
    const state = (all) => all.filter(({ kind }) => STATE.has(kind));
    const rest = own.filter(({ kind }) => !STATE.has(kind));
    const key = keyOf([features, source, world], rest.map(({ bytes }) => bytes));
    const found = kept("stubbed", key);
    if (found) {
      const states = state(own);
      const whole = sections(found.module).map(({ kind, bytes }) =>
        STATE.has(kind) ? states.shift().bytes : bytes,
      );
      return Buffer.concat([module.subarray(0, 8), ...whole]);
    }
    const stubbed = stubWasi(module, features, source, path, world);
    const [before, after] = [own, sections(stubbed)].map((all) => state(all));
    const isSame = before.length === after.length &&
      before.every(({ kind, bytes }, at) => {
        return kind === after[at].kind && Buffer.compare(bytes, after[at].bytes) === 0;
      });
    // Otherwise the step is not one that leaves the state alone.
    if (isSame) {
      keep("stubbed", key, stubbed);
    }
    return stubbed;
  };
}

try {
  await bundle();
  await keepEngine();
  const { componentize } = await import(`${COMPILER}/src/componentize.js`);
  const { component } = await componentize({
    sourcePath: "src/tool.js",
    witPath: resolve(wit),
    disableFeatures: WITHOUT,
  });
  writeFileSync(out, component);
} catch (error) {
  console.error(error instanceof Refusal ? error.message : (error?.message ?? String(error)));
  process.exitCode = 1;
}
