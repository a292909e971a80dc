// Between a tool's function and the interface skillhost:tool.
//
// `exportTools` takes one object a tool: its name, what the model reads of it, the JSON
// Schema of its arguments, and the function that answers a call. That returns the text that
// the model reads, or { text, details } with a record for programs, and throws a `Failure`
// where it has no answer.
import { getDirectories } from "wasi:filesystem/preopens@0.2.0";

// Largest file that is read, unless a call says otherwise.
export const LARGEST = 1 << 20;

const OUTSIDE = "Path traversal detected: cannot access files outside skill folder";

// Why a call has no output: whose problem it is, and words for the model.
export class Failure extends Error {
  constructor(kind, message, details) {
    super(message);
    this.kind = kind;
    this.details = details;
  }
  // The arguments make no sense together; the caller can correct them.
  static invalidArguments(message, details) {
    return new Failure("invalid-arguments", message, details);
  }
  // What was named is not there.
  static notFound(message, details) {
    return new Failure("not-found", message, details);
  }
  // What was asked for is allowed to nobody.
  static refused(message, details) {
    return new Failure("refused", message, details);
  }
  // It is there, and cannot be given.
  static unreadable(message, details) {
    return new Failure("unreadable", message, details);
  }
  // The tool could not do its work.
  static failed(message, details) {
    return new Failure("failed", message, details);
  }
}

// The one folder that a call may read: that of the skill that it names.
export class Folder {
  #root;

  constructor(root, skill, path) {
    this.#root = root;
    // The skill's name; undefined for the host's home folder.
    this.skill = skill;
    // For a call that names no skill: the path that it gave, inside this folder.
    this.path = path;
  }

  // A file's bytes, of which there are at most `limit`.
  readBytes(path, limit = LARGEST) {
    checkPath(path);
    const parts = [];
    let length = 0;
    try {
      const file = this.#root.openAt({ symlinkFollow: true }, path, {}, { read: true });
      for (let end = false; !end && length <= limit; ) {
        let part;
        [part, end] = file.read(BigInt(limit + 1 - length), BigInt(length));
        parts.push(part);
        length += part.length;
      }
    } catch (error) {
      throw unreadable(path, error);
    }
    if (length > limit) {
      throw Failure.unreadable(`${path}: larger than ${limit} bytes`);
    }
    const bytes = new Uint8Array(length);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return bytes;
  }

  // A file's text, without a byte order mark.
  readText(path, limit = LARGEST) {
    const bytes = this.readBytes(path, limit);
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw Failure.unreadable(`${path}: not valid UTF-8 text`);
    }
  }
}

// Refuses a path that leaves the folder at some step, on any system. The sandbox holds
// without this check; it holds without the sandbox.
export function checkPath(path) {
  if (path === "") {
    throw Failure.invalidArguments("path is empty");
  }
  if (/[\u0000-\u001f\u007f-\u009f]/.test(path)) {
    throw Failure.invalidArguments("path contains control characters");
  }
  if (/^([/\\]|[A-Za-z]:)/.test(path) || climbsOut(path, "/") || climbsOut(path, /[/\\]/)) {
    throw Failure.refused(`${path}: ${OUTSIDE}`);
  }
}

function climbsOut(path, separator) {
  let depth = 0;
  for (const part of path.split(separator)) {
    if (part === "..") {
      depth -= 1;
    } else if (part !== "" && part !== ".") {
      depth += 1;
    }
    if (depth < 0) {
      return true;
    }
  }
  return false;
}

const WHY = {
  "is-directory": "is a directory",
  access: "permission denied",
  unsupported: "is not a regular file",
  "too-many-links": "has several hard links",
  "cross-device": "lies on another mount",
  loop: "too many levels of symbolic links",
  "name-too-long": "name too long",
};

function unreadable(path, error) {
  const code = error?.payload;
  switch (code) {
    case "no-entry":
    case "not-directory":
      return Failure.notFound(`${path}: not found`);
    case "not-permitted":
      // A symlink on the way leads out of the folder.
      return Failure.refused(`${path}: ${OUTSIDE}`);
    default:
      return Failure.unreadable(`${path}: ${WHY[code] ?? "cannot be read"}`);
  }
}

// What a component exports as `tools`.
export function exportTools(...tools) {
  tools.forEach(check);
  return {
    definitions: () => tools.map(definition),
    call(name, args, folder) {
      const tool = tools.find((tool) => tool.name === name);
      try {
        const answer = tool.call(JSON.parse(args), tool.skill && open(folder));
        if (typeof answer === "string") {
          return { text: answer };
        }
        if (typeof answer?.text !== "string") {
          throw new TypeError("it returns neither a text nor { text, details }");
        }
        return withJson(answer);
      } catch (error) {
        if (error instanceof Failure) {
          const { kind, message, details } = error;
          throw withJson({ kind, message, details });
        }
        // The operator's log has the whole story: `skillhost --log info call …`.
        console.error(error?.stack ?? String(error));
        throw { kind: "failed", message: `${name} broke off: ${error}` };
      }
    },
  };
}

function withJson(answer) {
  const details = answer.details === undefined ? undefined : JSON.stringify(answer.details);
  return { ...answer, details };
}

// What is missing is said when the component is built, and not to a model.
function check(tool) {
  for (const [key, type] of [
    ["name", "string"],
    ["description", "string"],
    ["input", "object"],
    ["call", "function"],
  ]) {
    if (typeof tool[key] !== type) {
      throw new TypeError(`the tool ${tool.name ?? "without a name"} needs \`${key}\`, a ${type}`);
    }
  }
  if (tool.call.constructor.name === "AsyncFunction") {
    throw new TypeError(`the tool ${tool.name}: \`call\` is async, and a call waits for nothing`);
  }
  for (const key of ["skill", "path"]) {
    if (tool[key] !== undefined && !(tool[key] in (tool.input.properties ?? {}))) {
      throw new TypeError(
        `the tool ${tool.name}: \`${key}\` names ${tool[key]}, which is not a property of its schema`,
      );
    }
  }
}

function definition(tool) {
  return {
    name: tool.name,
    title: tool.title ?? "",
    description: tool.description,
    inputSchema: JSON.stringify(tool.input),
    outputSchema: tool.output && JSON.stringify(tool.output),
    folder: tool.skill && {
      skillProperty: tool.skill,
      enumerate: tool.listSkills ?? false,
      pathProperty: tool.path,
      skillOptional: false,
    },
    modelReads: "text",
  };
}

function open(folder) {
  switch (folder.tag) {
    case "open": {
      const { mount, skill, path } = folder.val;
      const found = getDirectories().find(([, name]) => name === mount);
      if (found) {
        return new Folder(found[0], skill, path);
      }
      throw Failure.unreadable("The skill's folder cannot be read.");
    }
    case "unknown-skill":
      throw Failure.notFound("There is no skill of that name. list_skills tells which there are.");
    case "unreadable":
      throw Failure.unreadable("The skill's folder cannot be read.");
    case "no-home":
      throw Failure.invalidArguments("Name a skill: no home folder is configured.");
    case "outside":
      throw Failure.refused(OUTSIDE);
    default:
      throw Failure.failed("This tool was not given a folder to read.");
  }
}
