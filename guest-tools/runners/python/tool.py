"""The tools `run_skill_script`, which runs a skill's Python scripts in the sandbox, and
`check_skill_scripts`, which says which scripts will run."""

import base64
import binascii
import errno
from json import dumps, loads
import os
import sys
import traceback

# Before other imports, because it decides what the build's memory has of them.
from skill_runner import repeatable

# Before all that imports `ssl`.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_ins"))

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import tools as wit
from wit_world.imports import scripts as host

from skill_runner import execute, heap, unsupported, loop, modules, network, streams  # noqa: F401: importing `loop` installs it
from skill_runner.baked import Baked
from skill_runner.judge import NETWORK, Judge

# The maximum number of scripts to check in a skill. Guards against: a skill with a million scripts.
MAX_CHECKED_SCRIPTS = 200
# The maximum number of scripts to list when a script is not found.
MAX_LISTED_SCRIPTS = 30
# Characters without a glyph that count as printable or as spaces: a control character, those that fonts ignore,
# and blank letters and signs.
UNSEEN = frozenset(map(chr, [
    0x1f, 0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, *range(0x180b, 0x1810), 0x2800, 0x3164, *range(0xfe00, 0xfe10), 0xffa0,
    0x13441, 0x13442, 0x16fe4, 0x1d159, *range(0xe0100, 0xe01f0),
]))
OUTSIDE_MESSAGE = "Path traversal detected: cannot access files outside skill folder"

SKILL_SCHEMA = {"type": "string", "description": "Name of the skill"}
REASONS_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file, in the skill"},
            "line": {"type": ["integer", "null"]},
            "needs": {"type": "string", "description": "The import or the call"},
            "instead": {"type": "string", "description": "Why it fails in the sandbox, and what to use instead"},
        },
        "required": ["path", "line", "needs", "instead"],
    },
}


def define(name, title, description, properties, required, output):
    return wit.Definition(
        name=name,
        title=title,
        description=description,
        input_schema=dumps(
            {"type": "object", "properties": properties, "required": required}),
        output_schema=dumps(output),
        folder=wit.FolderRule("skill_name", False, None, False),
        text_property=None,
        model_reads=wit.Form.TEXT,
    )


DEFINITIONS = [
    define(
        "run_skill_script",
        "Run a skill's Python script",
        "Run a Python script of a skill in a sandbox, and get what it prints. The script sees the "
        "skill's folder, which is its current folder, and has the standard library. It has no "
        "sockets, no processes and no threads; it sends HTTP requests if an operator grants them.",
        {
            "skill_name": SKILL_SCHEMA,
            "script": {
                "type": "string",
                "description": "Path of the script in the skill's folder, such as scripts/report.py",
            },
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 1000,
                "description": "Arguments of the script, one each",
            },
            "stdin": {"type": "string", "description": "Text that the script reads from stdin"},
            "files": {
                "type": "array",
                "maxItems": 1000,
                "items": {
                    "type": "object",
                    "properties": {
                        "path": {
                            "type": "string",
                            "description": "Path in the skill's folder",
                        },
                        "text": {"type": "string", "description": "The file's text"},
                        "base64": {"type": "string", "description": "The file's bytes in base64, instead of `text`"},
                    },
                    "required": ["path"],
                    "additionalProperties": False,
                },
                "description": "Files that the script finds in the skill's folder; they are gone after the call",
            },
        },
        ["skill_name", "script"],
        {
            "type": "object",
            "properties": {
                "exit_code": {"type": "integer"},
                "stdout": {"type": "string"},
                "stderr": {"type": "string"},
                "left_out": {"type": "integer", "description": "Bytes of stdout and stderr that are left out"},
                "notes": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Unsupported features that the script used",
                },
            },
            "required": ["exit_code", "stdout", "stderr", "left_out", "notes"],
        },
    ),
    define(
        "check_skill_scripts",
        "Check a skill's Python scripts",
        "Tell which Python scripts of a skill will run in run_skill_script, what each is for, and "
        "why one will not. Nothing is run.",
        {
            "skill_name": SKILL_SCHEMA,
            "script": {
                "type": "string",
                "description": "Path of one script; all scripts, if left out",
            },
        },
        ["skill_name"],
        {
            "type": "object",
            "properties": {
                "scripts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "script": {"type": "string"},
                            "description": {
                                "type": "string",
                                "description": "The first line of its docstring",
                            },
                            "verdict": {"enum": ["will run", "will not", "cannot be told", "needs the network"]},
                            "hosts": {
                                "type": "array",
                                "items": {"type": "string"},
                                "description": "The hosts that it needs and that the grant does not allow",
                            },
                            "reasons": REASONS_SCHEMA,
                        },
                        "required": ["script", "description", "verdict", "hosts", "reasons"],
                    },
                },
                "more": {"type": "boolean", "description": "Whether there are more scripts"},
            },
            "required": ["scripts", "more"],
        },
    ),
]


def failure(kind, message):
    return Err(wit.Failure(getattr(wit.FailureKind, kind), message, None))


def mount_of(folder):
    match folder:
        case wit.Folder_Open(value=opened):
            return opened.mount
        case wit.Folder_UnknownSkill():
            raise failure("NOT_FOUND", "There is no skill of that name. list_skills lists all skills.")
        case wit.Folder_Unreadable():
            raise failure("UNREADABLE", "The skill's folder cannot be read.")
    raise failure("REFUSED", "This tool was not given a folder to read.")


def normalized(path):
    """Checks the path of a file in the skill, and normalizes it."""
    if not path or "\0" in path:
        raise failure("INVALID_ARGUMENTS", "path is empty, or has a zero byte")
    parts = []
    is_outside = path[0] in "/\\" or path[1:2] == ":"
    for part in path.replace("\\", "/").split("/"):
        if part == "..":
            if not parts:
                is_outside = True
                break
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if is_outside:
        raise failure("REFUSED", f"{path}: {OUTSIDE_MESSAGE}")
    return "/".join(parts)


# The kind and the message of a failure, by the host's refusal to start a script.
REFUSALS = {
    "NOT_GRANTED": ("REFUSED", "the operator's grant for this tool does not allow this script"),
    "OUTSIDE": ("REFUSED", OUTSIDE_MESSAGE),
    **{refusal: ("UNREADABLE", reason) for refusal, reason in modules.UNREADABLE.items()},
}


def not_found(mount, script):
    """Returns a not-found failure that lists the skill's scripts."""
    listed, _ = Judge(BAKED, mount).scripts(MAX_LISTED_SCRIPTS)
    hint = f" The skill has: {', '.join(map(quoted, listed))}." if listed else " The skill has no Python scripts."
    return failure("NOT_FOUND", f"{script}: not found.{hint}")


def start_script(mount, script):
    """Reports the start of a script to the host, and returns its bytes. Fails if the call may not run it."""
    if os.path.splitext(script)[1] not in (".py", ""):
        raise failure("INVALID_ARGUMENTS", f"{script}: not a Python script; this tool runs `.py` files")
    try:
        return bytes(host.start(script))
    except Err as refused:
        name = getattr(refused.value, "name", "")
    if name == "NOT_FOUND":
        raise not_found(mount, script)
    kind, reason = REFUSALS.get(name, ("UNREADABLE", "cannot be read"))
    raise failure(kind, f"{script}: {reason}")


def write_inputs(mount, files):
    """Writes the files from the arguments into the call's view of the skill's folder."""
    os.chdir(mount)
    for file in files:
        path = normalized(file["path"])
        if ("text" in file) == ("base64" in file):
            raise failure("INVALID_ARGUMENTS", f"{path}: give either text or base64")
        try:
            data = file["text"].encode() if "text" in file else base64.b64decode(file["base64"], validate=True)
        except (binascii.Error, UnicodeError) as error:
            raise failure("INVALID_ARGUMENTS", f"{path}: {error}") from None
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "wb") as target:
                target.write(data)
        except OSError as error:
            cause = unsupported.READ_ONLY if error.errno in (errno.EROFS, errno.EPERM) else os.strerror(error.errno)
            raise failure("REFUSED", f"cannot write `{path}`: {cause}") from None


def run_skill_script(mount, script, args=(), stdin="", files=(), **_):
    script = normalized(script)
    source = start_script(mount, script)
    write_inputs(mount, files)
    result = execute.run(BAKED, mount, script, source, args, stdin.encode())
    host.finished(result.exit_code)
    details = {
        "exit_code": result.exit_code,
        "stdout": result.output.text(execute.STDOUT),
        "stderr": result.output.text(execute.STDERR),
        "left_out": result.output.left_out,
        "notes": result.notes.lines,
    }
    return wit.Output(result.text(), dumps(details))


def escaped(text):
    """Returns text as a part of one line, with line breaks and hidden characters as escapes."""
    def is_plain(char):
        # Spaces are plain, unless they break a line.
        is_space = char.isspace() and char.splitlines() == [char]
        return (char.isprintable() or is_space) and char not in UNSEEN

    return "".join(char if is_plain(char) else char.encode("unicode_escape").decode() for char in text)


def quoted(path):
    """Returns a path, quoted if it could be read as another line or as a verdict."""
    is_plain = all(char.isascii() and char.isalnum() or char in "-_./" for char in path)
    return path if is_plain else dumps(path)


def check_skill_scripts(mount, script=None, **_):
    # The host puts the rules of the grant into a variable.
    os.reload_environ()
    judge = Judge(BAKED, mount)
    if script is None:
        scripts, has_more = judge.scripts(MAX_CHECKED_SCRIPTS)
    else:
        scripts, has_more = [normalized(script)], False
        if not os.path.isfile(f"{mount}/{scripts[0]}"):
            raise not_found(mount, scripts[0])
    records = [judge.judge(path) for path in scripts]
    lines = []
    for record in records:
        description = f" - {escaped(record['description'])}" if record["description"] else ""
        verdict = record["verdict"]
        if verdict == NETWORK and record["hosts"]:
            verdict += f": {', '.join(record['hosts'])}"
        lines.append(f"{quoted(record['script'])}: {verdict}{description}")
        for reason in record["reasons"]:
            file = "" if reason["path"] == record["script"] else f"{quoted(reason['path'])}, "
            line = f"line {reason['line']}: " if reason["line"] else ""
            instead = f": {escaped(reason['instead'])}" if reason["instead"] else ""
            lines.append(f"  {file}{line}{escaped(reason['needs'])}{instead}")
    if has_more:
        lines.append(f"[only the first {MAX_CHECKED_SCRIPTS} scripts]")
    text = "\n".join(lines) or "This skill has no Python scripts."
    return wit.Output(text, dumps({"scripts": records, "more": has_more}))


TOOLS = {"run_skill_script": run_skill_script, "check_skill_scripts": check_skill_scripts}


class Tools(exports.Tools):
    def definitions(self):
        return DEFINITIONS

    def call(self, name, arguments, folder):
        mount = mount_of(folder)
        try:
            return TOOLS[name](mount, **loads(arguments))
        except Err:
            raise
        except Exception as error:
            traceback.print_exc(file=sys.__stderr__)
            raise failure("FAILED", f"{name} failed: {type(error).__name__}: {error}") from None


BAKED = Baked()
BAKED.load()
repeatable.reset()
unsupported.replace()
network.replace()
streams.replace()
modules.replace()
execute.accept_mounts()
execute.follow_links()
execute.hide_frames()
heap.settle(BAKED)
repeatable.restore()
