// `fs`: files in the skill's folder and in /tmp. Every operation is synchronous; callbacks and
// promises get its result later.
const process = require("process");
const unsupported = require("unsupported");
// The number and the text of each error code.
const ERRORS = {
  EACCES: [-13, "permission denied"],
  EBADF: [-9, "bad file descriptor"],
  EEXIST: [-17, "file already exists"],
  EFBIG: [-27, "file too large"],
  EINVAL: [-22, "invalid argument"],
  EIO: [-5, "i/o error"],
  EISDIR: [-21, "illegal operation on a directory"],
  ELOOP: [-40, "too many symbolic links encountered"],
  ENAMETOOLONG: [-36, "name too long"],
  ENOENT: [-2, "no such file or directory"],
  ENOSPC: [-28, "no space left on device"],
  ENOTDIR: [-20, "not a directory"],
  ENOTEMPTY: [-39, "directory not empty"],
  ENOTSUP: [-95, "operation not supported"],
  EPERM: [-1, "operation not permitted"],
  EROFS: [-30, "read-only file system"],
  EXDEV: [-18, "cross-device link not permitted"],
};
const READ_ONLY =
  "the skill's folder is read-only in this call; an operator can let scripts change a copy of it, " +
  'which ends with the call: `view = "copy-on-write"` in the grant';

const fs = {};
module.exports = fs;

fs.constants = {
  F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2,
  O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024,
  S_IFMT: 61440, S_IFREG: 32768, S_IFDIR: 16384, S_IFLNK: 40960,
};
Object.assign(fs, { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 });

// Returns the flags of `open` as a number. Accepts "r", "w" and "a", with "+" and "x".
function openFlags(flags) {
  if (typeof flags === "number") {
    return flags;
  }
  const { O_RDWR, O_WRONLY, O_CREAT, O_EXCL, O_TRUNC, O_APPEND } = fs.constants;
  const base = { w: O_WRONLY | O_CREAT | O_TRUNC, a: O_WRONLY | O_CREAT | O_APPEND }[flags[0]] ?? 0;
  const access = flags.includes("+") ? (base & ~O_WRONLY) | O_RDWR : base;
  return flags.includes("x") ? access | O_EXCL : access;
}

// Returns an error as Node makes it.
function systemError(code, syscall, path, dest) {
  const [errno, text] = ERRORS[code] ?? ERRORS.EIO;
  if (code === "EROFS") {
    native.note(READ_ONLY);
  }
  const paths = path === undefined ? "" : dest === undefined ? ` '${path}'` : ` '${path}' -> '${dest}'`;
  const error = new Error(`${code}: ${text}, ${syscall}${paths}`);
  Object.assign(error, { errno, code, syscall });
  if (path !== undefined) {
    error.path = path;
  }
  if (dest !== undefined) {
    error.dest = dest;
  }
  return error;
}
Object.defineProperty(fs, "error", { value: systemError, enumerable: false });

// Calls a function. Turns an error of `native`, whose message is a code, into Node's error.
function withErrors(syscall, path, dest, operation) {
  try {
    return operation();
  } catch (error) {
    throw error.code ? error : systemError(error.message, syscall, path, dest);
  }
}

// Checks a path argument and returns it as a string.
function pathText(path, name = "path") {
  if (path instanceof URL) {
    return require("url").fileURLToPath(path);
  }
  const text = path instanceof Uint8Array ? Buffer.from(path).toString() : path;
  if (typeof text !== "string") {
    const received = path === null ? "null" : path === undefined ? "undefined" : require("util").inspect(path);
    const error = new TypeError(`The "${name}" argument must be of type string or an instance of Buffer or URL. Received ${received}`);
    throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
  }
  if (text.includes("\0")) {
    throw Object.assign(new TypeError(`The argument '${name}' must be a string without null bytes`), { code: "ERR_INVALID_ARG_VALUE" });
  }
  return text;
}

// Returns a path as an absolute and normalized one.
function absolute(path) {
  if (path === "") {
    throw new Error("ENOENT");
  }
  const parts = [];
  for (const part of (path.startsWith("/") ? path : `${process.cwd()}/${path}`).split("/")) {
    if (part === "..") {
      parts.pop();
    } else if (part !== "" && part !== ".") {
      parts.push(part);
    }
  }
  return `/${parts.join("/")}`;
}

// Calls a function with the absolute path.
function atPath(path, syscall, operation) {
  const text = pathText(path);
  return withErrors(syscall, text, undefined, () => operation(absolute(text)));
}

const encodingOf = (options) => (typeof options === "string" ? options : options?.encoding);
const asText = (bytes, options) => {
  const encoding = encodingOf(options);
  if (encoding && /^utf-?8$/i.test(encoding)) {
    return native.decode(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes), false);
  }
  const buffer = Buffer.from(bytes);
  return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
};
const asBytes = (data, options) => {
  if (typeof data === "string") {
    const encoding = encodingOf(options);
    return encoding && !/^utf-?8$/i.test(encoding) ? Buffer.from(data, encoding) : new Uint8Array(native.encode(data.toWellFormed()));
  }
  if (ArrayBuffer.isView(data)) {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  }
  const error = new TypeError(`The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${require("util").inspect(data)}`);
  throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
};
const DEVICES = { "/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2, "/dev/null": -1 };
// Returns the descriptor of a standard stream or /dev/null, by number or path.
const standardFd = (file) => (typeof file === "number" ? (file <= 2 ? file : undefined) : DEVICES[file]);
let stdinOffset = 0;
let stdinBytes;

function readStdin(length = Infinity) {
  stdinBytes ??= new Uint8Array(native.encode(native.stdin));
  const chunk = stdinBytes.subarray(stdinOffset, Math.min(stdinOffset + length, stdinBytes.length));
  stdinOffset += chunk.length;
  return chunk;
}

class Stats {
  constructor([kind, size, accessed, modified]) {
    Object.assign(this, {
      dev: 1,
      mode: [0o100644, 0o40755, 0o120777, 0o20666][kind],
      nlink: 1, uid: 1000, gid: 1000, rdev: 0, blksize: 4096, ino: 0, size,
      blocks: Math.ceil(size / 512),
      atimeMs: accessed, mtimeMs: modified, ctimeMs: modified, birthtimeMs: modified,
      atime: new Date(accessed), mtime: new Date(modified), ctime: new Date(modified), birthtime: new Date(modified),
    });
    defineKindMethods(this, kind);
  }
}
function defineKindMethods(object, kind) {
  const kinds = { isFile: 0, isDirectory: 1, isSymbolicLink: 2, isCharacterDevice: 3, isFIFO: -1, isSocket: -1, isBlockDevice: -1 };
  for (const [name, tested] of Object.entries(kinds)) {
    Object.defineProperty(object, name, { value: () => kind === tested, enumerable: false });
  }
}
class Dirent {
  constructor(name, folder, kind) {
    this.name = name;
    this.parentPath = folder;
    this.path = folder;
    defineKindMethods(this, kind);
  }
}
fs.Stats = Stats;
fs.Dirent = Dirent;

const sync = {
  access: (path, mode = 0) => atPath(path, "access", (path) => {
    native.stat(path, true);
    if (mode & 1 && !native.stat(path, true)[0]) {
      throw new Error("EACCES");
    }
  }),
  stat: (path, options) => orUndefined(options, () => new Stats(atPath(path, "stat", (path) => native.stat(path, true)))),
  lstat: (path, options) => orUndefined(options, () => new Stats(atPath(path, "lstat", (path) => native.stat(path, false)))),
  fstat: (fd) => new Stats(fd <= 2 ? [3, 0, 0, 0] : withErrors("fstat", undefined, undefined, () => native.fstat(fd))),
  readFile(file, options) {
    const standard = standardFd(file);
    if (standard !== undefined) {
      return asText(standard === 0 ? readStdin() : new Uint8Array(), options);
    }
    if (typeof file === "number") {
      return asText(withErrors("read", undefined, undefined, () => native.read(file, 2 ** 31, -1)), options);
    }
    const bytes = atPath(file, "open", (path) => {
      try {
        return native.readFile(path);
      } catch (error) {
        throw sync.exists(path) && native.stat(path, true)[0] === 1 ? systemError("EISDIR", "read") : error;
      }
    });
    return asText(bytes, options);
  },
  writeFile: (file, data, options) => writeAll(file, data, options, options?.flag ?? "w"),
  appendFile: (file, data, options) => writeAll(file, data, options, options?.flag ?? "a"),
  open(path, flags = "r") {
    const bits = openFlags(flags);
    const standard = standardFd(pathText(path));
    return standard ?? atPath(path, "open", (path) => {
      const { O_CREAT, O_RDONLY } = fs.constants;
      if (bits !== O_RDONLY && !(bits & O_CREAT) && native.stat(path, true)[0] === 1) {
        throw new Error("EISDIR");
      }
      return native.open(path, bits);
    });
  },
  close: (fd) => fd <= 2 ? undefined : withErrors("close", undefined, undefined, () => native.close(fd)),
  read(fd, buffer, offset, length, position) {
    if (offset !== null && typeof offset === "object") {
      ({ offset, length, position } = offset);
    }
    offset ??= 0;
    length ??= buffer.byteLength - offset;
    const bytes = fd === 0 ? readStdin(length)
      : new Uint8Array(withErrors("read", undefined, undefined, () => native.read(fd, length, Number(position ?? -1))));
    new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, offset);
    return bytes.length;
  },
  write(fd, data, offset, length, position) {
    let bytes;
    if (typeof data === "string") {
      bytes = asBytes(data, length);
      position = offset;
    } else {
      bytes = asBytes(data).subarray(offset ?? 0, (offset ?? 0) + (length ?? data.byteLength - (offset ?? 0)));
    }
    if (fd === 1 || fd === 2) {
      native.outputBytes(fd, bytes);
    } else if (fd !== -1) {
      withErrors("write", undefined, undefined, () => native.write(fd, bytes, Number(position ?? -1)));
    }
    return bytes.length;
  },
  ftruncate: (fd, length = 0) => withErrors("ftruncate", undefined, undefined, () => native.resize(fd, length)),
  truncate(path, length = 0) {
    const fd = sync.open(path, "r+");
    try {
      sync.ftruncate(fd, length);
    } finally {
      native.close(fd);
    }
  },
  mkdir(path, options) {
    if (!options?.recursive) {
      return atPath(path, "mkdir", (path) => native.makeFolder(path));
    }
    let first;
    const make = (path) => {
      try {
        native.makeFolder(path);
        first ??= path;
      } catch (error) {
        if (error.message === "ENOENT" && path !== "/") {
          make(path.slice(0, path.lastIndexOf("/")) || "/");
          native.makeFolder(path);
        } else if (native.stat(path, true)[0] !== 1) {
          throw error;
        }
      }
    };
    atPath(path, "mkdir", make);
    return first;
  },
  mkdtemp(prefix) {
    for (;;) {
      const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
      const random = [...new Uint8Array(native.random(6))].map((byte) => letters[byte % 62]).join("");
      try {
        sync.mkdir(pathText(prefix) + random);
        return pathText(prefix) + random;
      } catch (error) {
        if (error.code !== "EEXIST") {
          throw error;
        }
      }
    }
  },
  readdir(path, options) {
    const base = pathText(path);
    const entries = [];
    const walk = (folder, subfolder) => {
      for (const name of atPath(folder, "scandir", (folder) => native.list(folder))) {
        const relative = subfolder ? `${subfolder}/${name}` : name;
        const kind = options?.withFileTypes || options?.recursive ? native.stat(absolute(`${folder}/${name}`), false)[0] : 0;
        entries.push(options?.withFileTypes ? new Dirent(name, subfolder ? `${base}/${subfolder}` : base, kind) : relative);
        if (options?.recursive && kind === 1) {
          walk(`${folder}/${name}`, relative);
        }
      }
    };
    walk(base, "");
    return entries;
  },
  rm(path, options) {
    const text = pathText(path);
    let kind;
    try {
      [kind] = native.stat(absolute(text), false);
    } catch (error) {
      if (options?.force && error.message === "ENOENT") {
        return;
      }
      throw systemError(error.message, "lstat", text);
    }
    if (kind === 1 && !options?.recursive) {
      const error = new Error(`Path is a directory: rm returned EISDIR (is a directory) ${text}`);
      throw Object.assign(error, { name: "SystemError", code: "ERR_FS_EISDIR", errno: 21, syscall: "rm", path: text });
    }
    const remove = (path) => {
      if (native.stat(path, false)[0] === 1) {
        native.list(path).forEach((name) => remove(`${path}/${name}`));
        native.removeFolder(path);
      } else {
        native.removeFile(path);
      }
    };
    atPath(path, "rm", remove);
  },
  rmdir: (path, options) => options?.recursive ? sync.rm(path, options) : atPath(path, "rmdir", (path) => native.removeFolder(path)),
  unlink: (path) => atPath(path, "unlink", (path) => native.removeFile(path)),
  rename: (from, to) => withErrors("rename", pathText(from), pathText(to), () => native.rename(absolute(pathText(from)), absolute(pathText(to)))),
  copyFile(from, to, mode = 0) {
    withErrors("copyfile", pathText(from), pathText(to), () => {
      if (mode & 1 && sync.exists(to)) {
        throw new Error("EEXIST");
      }
      const bytes = new Uint8Array(native.readFile(absolute(pathText(from))));
      const fd = native.open(absolute(pathText(to)), openFlags("w"));
      native.write(fd, bytes, -1);
      native.close(fd);
    });
  },
  cp(from, to, options) {
    const copy = (from, to) => {
      if (options?.filter && !options.filter(from, to)) {
        return;
      }
      if (sync.stat(from).isDirectory()) {
        if (!options?.recursive) {
          const error = new Error(`Recursive option not enabled, cannot copy a directory: cp returned EISDIR (${from} is a directory (not copied)) ${from}`);
          throw Object.assign(error, { code: "ERR_FS_EISDIR", path: from });
        }
        sync.mkdir(to, { recursive: true });
        sync.readdir(from).forEach((name) => copy(`${from}/${name}`, `${to}/${name}`));
      } else if (options?.force !== false || !sync.exists(to)) {
        const slash = to.lastIndexOf("/");
        if (slash > 0) {
          sync.mkdir(to.slice(0, slash), { recursive: true });
        }
        sync.copyFile(from, to);
      }
    };
    copy(pathText(from), pathText(to));
  },
  readlink: (path) => atPath(path, "readlink", (path) => native.readLink(path)),
  realpath(path) {
    return atPath(path, "realpath", (path) => {
      let resolved = "";
      let parts = path.split("/").filter(Boolean);
      for (let links = 0; parts.length > 0; ) {
        const next = `${resolved}/${parts.shift()}`;
        // The call cannot read the parents of the skill's folder.
        const isParent = native.folder.startsWith(`${next}/`);
        if (!isParent && native.stat(next, false)[0] === 2) {
          if ((links += 1) > 40) {
            throw new Error("ELOOP");
          }
          const target = native.readLink(next);
          parts = [...absolute(target.startsWith("/") ? target : `${resolved}/${target}`).split("/").filter(Boolean), ...parts];
          resolved = "";
        } else {
          resolved = next;
        }
      }
      return resolved || "/";
    });
  },
  symlink: (target, path) => {
    throw systemError("EPERM", "symlink", pathText(target), pathText(path));
  },
  link: (from, to) => {
    throw systemError("EPERM", "link", pathText(from), pathText(to));
  },
  chmod: (path) => void sync.access(path),
  fchmod: () => undefined,
  chown: (path) => void sync.access(path),
  utimes: (path, accessed, modified) => atPath(path, "utime", (path) => {
    const seconds = (time) => (time instanceof Date ? time / 1000 : Number(time));
    native.touch(path, seconds(accessed), seconds(modified));
  }),
  fsync: () => undefined,
  fdatasync: () => undefined,
  exists(path) {
    try {
      return native.stat(absolute(pathText(path)), true) !== undefined;
    } catch {
      return false;
    }
  },
};

// Calls a function. Returns undefined for a missing file if the option `throwIfNoEntry` is false.
function orUndefined(options, operation) {
  try {
    return operation();
  } catch (error) {
    if (options?.throwIfNoEntry === false && error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

function writeAll(file, data, options, flag) {
  const bytes = asBytes(data, options);
  if (typeof file === "number" || standardFd(file) !== undefined) {
    sync.write(standardFd(file) ?? file, bytes);
    return;
  }
  atPath(file, "open", (path) => {
    const fd = native.open(path, openFlags(flag));
    try {
      native.write(fd, bytes, -1);
    } finally {
      native.close(fd);
    }
  });
}

fs.promises = { constants: fs.constants };
for (const [name, operation] of Object.entries(sync)) {
  fs[`${name}Sync`] = (...args) => operation(...args);
  fs[name] = (...args) => {
    const callback = args.pop();
    if (typeof callback !== "function") {
      const error = new TypeError('The "cb" argument must be of type function. Received ' + require("util").inspect(callback));
      throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
    }
    let result;
    try {
      result = [null, operation(...args)];
    } catch (error) {
      if (error.code?.startsWith("ERR_")) {
        throw error;
      }
      result = [error];
    }
    setImmediate(() => name === "exists" ? callback(result[1]) : callback(...result));
  };
  fs.promises[name] = (...args) => new Promise((resolve, reject) => {
    let result;
    try {
      result = operation(...args);
    } catch (error) {
      setImmediate(reject, error);
      return;
    }
    setImmediate(resolve, result);
  });
}
delete fs.promises.exists;
fs.realpathSync.native = fs.realpathSync;

class FileHandle {
  constructor(fd) {
    this.fd = fd;
  }
  async read(buffer, ...rest) {
    return { bytesRead: sync.read(this.fd, buffer, ...rest), buffer };
  }
  async write(data, ...rest) {
    return { bytesWritten: sync.write(this.fd, data, ...rest), buffer: data };
  }
  readFile = async (options) => sync.readFile(this.fd, options);
  writeFile = async (data, options) => writeAll(this.fd, data, options);
  appendFile = async (data, options) => writeAll(this.fd, data, options);
  stat = async () => sync.fstat(this.fd);
  truncate = async (length) => sync.ftruncate(this.fd, length);
  sync = async () => undefined;
  close = async () => sync.close(this.fd);
  readLines = () => require("readline").createInterface({ input: require("streams").from(sync.readFile(this.fd)) });
  [Symbol.asyncDispose ?? Symbol.for("asyncDispose")] = () => this.close();
}
fs.promises.open = async (path, flags) => new FileHandle(sync.open(path, flags));
fs.promises.mkdtemp = async (prefix) => sync.mkdtemp(prefix);

fs.createReadStream = (path, options) => require("streams").reader(path, options);
fs.createWriteStream = (path, options) => require("streams").writer(path, options);
for (const name of ["watch", "watchFile", "unwatchFile"]) {
  fs[name] = () => {
    throw unsupported.watchError(name);
  };
}
Object.defineProperty(fs, "stdin", { value: readStdin, enumerable: false });
