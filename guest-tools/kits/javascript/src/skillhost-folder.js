// Reads files in the skill's folder. Needs only `wasi:filesystem`, so typed functions can use it, too.
import { getDirectories } from "wasi:filesystem/preopens@0.2.0";

// The default maximum size of a file to read, in bytes.
export const LARGEST = 1 << 20;
// The default maximum number of names or files to list.
const MAX_LISTED = 10_000;

export const OUTSIDE = "Path traversal detected: cannot access files outside skill folder";

// The failure of a call: its kind, and a message for the model.
export class Failure extends Error {
  constructor(kind, message, details) {
    super(message);
    this.kind = kind;
    this.details = details;
    // The `err` of the result of a typed function that throws the failure.
    this.payload = message;
  }
  // Returns a failure for invalid arguments, which the caller can correct.
  static invalidArguments(message, details) {
    return new Failure("invalid-arguments", message, details);
  }
  // Returns a failure for something that the call names and that does not exist.
  static notFound(message, details) {
    return new Failure("not-found", message, details);
  }
  // Returns a failure for a request that is not allowed.
  static refused(message, details) {
    return new Failure("refused", message, details);
  }
  // Returns a failure for something that exists but cannot be read.
  static unreadable(message, details) {
    return new Failure("unreadable", message, details);
  }
  // Returns a failure for a tool that could not do its work.
  static failed(message, details) {
    return new Failure("failed", message, details);
  }
}

// The one folder that a call may read: the folder of the skill that it names.
export class Folder {
  #root;

  constructor(root, skill, path) {
    this.#root = root;
    // The skill's name; undefined for the host's home folder.
    this.skill = skill;
    // The call's path relative to this folder, if the call names no skill.
    this.path = path;
  }

  // Returns the bytes of a file of at most `limit` bytes.
  readBytes(path, limit = LARGEST) {
    checkPath(path);
    const chunks = [];
    let length = 0;
    try {
      const file = this.#root.openAt({ symlinkFollow: true }, path, {}, { read: true });
      withHandle(file, () => {
        for (let isAtEnd = false; !isAtEnd && length <= limit; ) {
          let chunk;
          [chunk, isAtEnd] = file.read(BigInt(limit + 1 - length), BigInt(length));
          chunks.push(chunk);
          length += chunk.length;
        }
      });
    } catch (error) {
      throw unreadable(path, error);
    }
    if (length > limit) {
      throw Failure.unreadable(`${path}: larger than ${limit} bytes`);
    }
    const bytes = new Uint8Array(length);
    let offset = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, offset);
      offset += chunk.length;
    }
    return bytes;
  }

  // Returns the names in a folder, sorted. The names of folders end with a slash. Fails if there
  // are more than `most`.
  list(path = ".", most = MAX_LISTED) {
    checkPath(path);
    const names = this.#entries(path).map(({ name, isFolder }) => (isFolder ? `${name}/` : name));
    if (names.length > most) {
      throw Failure.unreadable(`${path}: more than ${most} names`);
    }
    return names.sort();
  }

  // Returns the paths of the files in a folder and in its subfolders, sorted. Does not follow
  // symlinks to folders. Fails if there are more than `most`.
  files(path = ".", most = MAX_LISTED) {
    checkPath(path);
    const files = [];
    const folders = [normalized(path)];
    for (let folder; (folder = folders.pop()) !== undefined; ) {
      for (const entry of this.#entries(folder)) {
        const entryPath = folder === "." ? entry.name : `${folder}/${entry.name}`;
        if (!entry.isFolder) {
          files.push(entryPath);
        } else if (!entry.isSymlink) {
          folders.push(entryPath);
        }
      }
      if (files.length > most) {
        throw Failure.unreadable(`${path}: more than ${most} files`);
      }
    }
    return files.sort();
  }

  #entries(path) {
    const listed = [];
    let folder;
    try {
      folder = this.#root.openAt({ symlinkFollow: true }, path, {}, { read: true });
    } catch (error) {
      throw unreadable(path, error);
    }
    const add = (entry) => {
      const isSymlink = entry.type === "symbolic-link";
      const leadsToFolder = isSymlink && this.#isFolder(`${path}/${entry.name}`);
      listed.push({ name: entry.name, isSymlink, isFolder: leadsToFolder || entry.type === "directory" });
    };
    try {
      withHandle(folder, () => {
        const entries = folder.readDirectory();
        withHandle(entries, () => {
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
    return listed;
  }

  #isFolder(path) {
    try {
      const open = { directory: true };
      withHandle(this.#root.openAt({ symlinkFollow: true }, path, open, { read: true }), () => {});
      return true;
    } catch {
      return false;
    }
  }

  // Returns the text of a file of at most `limit` bytes, without its byte order mark.
  readText(path, limit = LARGEST) {
    const bytes = this.readBytes(path, limit);
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw Failure.unreadable(`${path}: not valid UTF-8 text`);
    }
  }
}

// Calls `use`, then closes the handle. Without this, the handle stays open until the call ends,
// because no garbage is collected before, and a call may have only a limited number of handles.
function withHandle(handle, use) {
  try {
    use();
  } finally {
    handle[Symbol.dispose ?? Symbol.for("dispose")]();
  }
}

// Refuses a path that leaves the folder at any step on any system. This check and the sandbox do
// not rely on each other.
export function checkPath(path) {
  if (path === "") {
    throw Failure.invalidArguments("path is empty");
  }
  if (/[\u0000-\u001f\u007f-\u009f]/.test(path)) {
    throw Failure.invalidArguments("path contains control characters");
  }
  if (/^([/\\]|[A-Za-z]:)/.test(path) || leavesFolder(path, "/") || leavesFolder(path, /[/\\]/)) {
    throw Failure.refused(`${path}: ${OUTSIDE}`);
  }
}

// Returns a path without `.`, `..` and doubled slashes.
function normalized(path) {
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

function leavesFolder(path, separator) {
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

// The reasons for errors of the file system and of `textFromFile`, by code.
const REASONS = {
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

// Returns the failure for an error of the file system or of `textFromFile`.
export function unreadable(path, error, limit) {
  const code = error?.payload;
  switch (code) {
    case "no-entry":
    case "not-directory":
    case "not-found":
      return Failure.notFound(`${path}: not found`);
    case "not-permitted":
    case "outside":
      // A symlink in the path leads out of the folder.
      return Failure.refused(`${path}: ${OUTSIDE}`);
    case "too-large":
      return Failure.unreadable(`${path}: larger than ${limit} bytes`);
    default:
      return Failure.unreadable(`${path}: ${REASONS[code] ?? "cannot be read"}`);
  }
}

// Returns the folder that is mounted at a path.
export function mounted(mount) {
  const preopen = getDirectories().find(([, name]) => name === mount);
  if (!preopen) {
    throw Failure.unreadable("The skill's folder cannot be read.");
  }
  return preopen[0];
}

// Returns the folder of the skill that a function's parameter `skill-name` names.
export function skillFolder(name) {
  return new Folder(mounted(`/skills/${name}`), name);
}
