// The skill's folder, and reading in it. Needs nothing but `wasi:filesystem`, so functions with
// types of their own can use it too.
import { getDirectories } from "wasi:filesystem/preopens@0.2.0";

// Largest file that is read, unless a call says otherwise.
export const LARGEST = 1 << 20;
// Most names and files that are listed, unless a call says otherwise.
const MOST = 10_000;

export const OUTSIDE = "Path traversal detected: cannot access files outside skill folder";

// Why a call has no output: whose problem it is, and words for the model.
export class Failure extends Error {
  constructor(kind, message, details) {
    super(message);
    this.kind = kind;
    this.details = details;
    // Where a function with types throws it, this is the `err` of its result.
    this.payload = message;
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
      within(file, () => {
        for (let end = false; !end && length <= limit; ) {
          let part;
          [part, end] = file.read(BigInt(limit + 1 - length), BigInt(length));
          parts.push(part);
          length += part.length;
        }
      });
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

  // The names in a folder, sorted. That of a folder ends with a slash.
  list(path = ".", most = MOST) {
    checkPath(path);
    const names = this.#entries(path).map(({ name, folder }) => (folder ? `${name}/` : name));
    if (names.length > most) {
      throw Failure.unreadable(`${path}: more than ${most} names`);
    }
    return names.sort();
  }

  // The paths of the files in a folder and below it, sorted. Symlinks to folders are not
  // followed.
  files(path = ".", most = MOST) {
    checkPath(path);
    const found = [];
    const folders = [normal(path)];
    for (let folder; (folder = folders.pop()) !== undefined; ) {
      for (const entry of this.#entries(folder)) {
        const inside = folder === "." ? entry.name : `${folder}/${entry.name}`;
        if (!entry.folder) {
          found.push(inside);
        } else if (!entry.symlink) {
          folders.push(inside);
        }
      }
      if (found.length > most) {
        throw Failure.unreadable(`${path}: more than ${most} files`);
      }
    }
    return found.sort();
  }

  #entries(path) {
    const found = [];
    let folder;
    try {
      folder = this.#root.openAt({ symlinkFollow: true }, path, {}, { read: true });
    } catch (error) {
      throw unreadable(path, error);
    }
    const add = (entry) => {
      const symlink = entry.type === "symbolic-link";
      const leads = symlink && this.#isFolder(`${path}/${entry.name}`);
      found.push({ name: entry.name, symlink, folder: leads || entry.type === "directory" });
    };
    try {
      within(folder, () => {
        const entries = folder.readDirectory();
        within(entries, () => {
          for (let entry; (entry = entries.readDirectoryEntry()); ) {
            add(entry);
          }
        });
      });
    } catch (error) {
      if (error?.payload === "not-directory") {
        throw Failure.unreadable(`${path}: is not a directory`);
      }
      throw unreadable(path, error);
    }
    return found;
  }

  #isFolder(path) {
    try {
      const open = { directory: true };
      within(this.#root.openAt({ symlinkFollow: true }, path, open, { read: true }), () => {});
      return true;
    } catch {
      return false;
    }
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

// Uses a handle and gives it back. No garbage is collected before the call ends, and a call
// holds only so many handles.
function within(handle, use) {
  try {
    use();
  } finally {
    handle[Symbol.dispose ?? Symbol.for("dispose")]();
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

// A path without `.`, `..` and doubled slashes.
function normal(path) {
  const parts = [];
  for (const part of path.split("/")) {
    if (part === "..") {
      parts.pop();
    } else if (part !== "" && part !== ".") {
      parts.push(part);
    }
  }
  return parts.join("/") || ".";
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

// The words for an error of the file system, or of an answer with a file.
const WHY = {
  "is-directory": "is a directory",
  access: "permission denied",
  "permission-denied": "permission denied",
  unsupported: "is not a regular file",
  "not-regular": "is not a regular file",
  "too-many-links": "has several hard links",
  "hard-linked": "has several hard links",
  "cross-device": "lies on another mount",
  "other-mount": "lies on another mount",
  loop: "too many levels of symbolic links",
  "symlink-loop": "too many levels of symbolic links",
  "name-too-long": "name too long",
  "illegal-byte-sequence": "holds a name that is not UTF-8",
  "not-utf8": "not valid UTF-8 text",
};

export function unreadable(path, error, limit) {
  const code = error?.payload;
  switch (code) {
    case "no-entry":
    case "not-directory":
    case "not-found":
      return Failure.notFound(`${path}: not found`);
    case "not-permitted":
    case "outside":
      // A symlink on the way leads out of the folder.
      return Failure.refused(`${path}: ${OUTSIDE}`);
    case "too-large":
      return Failure.unreadable(`${path}: larger than ${limit} bytes`);
    default:
      return Failure.unreadable(`${path}: ${WHY[code] ?? "cannot be read"}`);
  }
}

// The folder that is mounted under a name.
export function mounted(mount) {
  const found = getDirectories().find(([, name]) => name === mount);
  if (!found) {
    throw Failure.unreadable("The skill's folder cannot be read.");
  }
  return found[0];
}

// The folder of the skill that a function's parameter `skill-name` names.
export function skillFolder(name) {
  return new Folder(mounted(`/skills/${name}`), name);
}
