"""The tools run_skill_script and check_skill_scripts: scripts of a skill, run in the sandbox, and
told beforehand whether they will."""

import base64
import binascii
import errno
from json import dumps, loads
import os
import sys
import traceback

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import tools as wit
from wit_world.imports import scripts as host

from skill_runner import execute, heap, lacks, loop, modules, streams  # noqa: F401: the loop is put in its place
from skill_runner.baked import Baked
from skill_runner.judge import Judge

# Scripts of a skill that are judged. Guards against: a folder of a million.
MOST_SCRIPTS = 200
# Scripts that are named where one is not found.
LISTED = 30
OUTSIDE = "Path traversal detected: cannot access files outside skill folder"

SKILL = {"type": "string", "description": "Name of the skill"}
REASONS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file, in the skill"},
            "line": {"type": ["integer", "null"]},
            "needs": {"type": "string", "description": "The import or the call"},
            "instead": {"type": "string", "description": "Why it fails here, and what would do"},
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
        "network, no processes and no threads.",
        {
            "skill_name": SKILL,
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
                        "base64": {"type": "string", "description": "Or its bytes"},
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
                "left_out": {"type": "integer", "description": "Bytes of both that are left out"},
                "notes": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "What the script asked for and the sandbox does not have",
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
            "skill_name": SKILL,
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
                            "verdict": {"enum": ["will run", "will not", "cannot be told"]},
                            "reasons": REASONS,
                        },
                        "required": ["script", "description", "verdict", "reasons"],
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
            raise failure("NOT_FOUND", "There is no skill of that name. list_skills tells which there are.")
        case wit.Folder_Unreadable():
            raise failure("UNREADABLE", "The skill's folder cannot be read.")
    raise failure("REFUSED", "This tool was not given a folder to read.")


def inside(path):
    """A path in the skill, without steps that lead nowhere."""
    if not path or "\0" in path:
        raise failure("INVALID_ARGUMENTS", "path is empty, or has a zero byte")
    parts = []
    rooted = path[0] in "/\\" or path[1:2] == ":"
    for part in path.replace("\\", "/").split("/"):
        if part == "..":
            if not parts:
                rooted = True
                break
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if rooted:
        raise failure("REFUSED", f"{path}: {OUTSIDE}")
    return "/".join(parts)


# Why the host starts no script, by its word for it.
REFUSALS = {
    "NOT_GRANTED": ("REFUSED", "the operator's grant of this tool allows no script of this path"),
    "OUTSIDE": ("REFUSED", OUTSIDE),
    **{refusal: ("UNREADABLE", why) for refusal, why in modules.UNREADABLE.items()},
}


def not_found(mount, script):
    """Names the scripts that there are."""
    listed, _ = Judge(BAKED, mount).scripts(LISTED)
    there = f" The skill has: {', '.join(map(shown, listed))}." if listed else " The skill has no Python scripts."
    return failure("NOT_FOUND", f"{script}: not found.{there}")


def start(mount, script):
    """The bytes of a script that may be run."""
    if os.path.splitext(script)[1] not in (".py", ""):
        raise failure("INVALID_ARGUMENTS", f"{script}: not a Python script; this tool runs `.py` files")
    try:
        return bytes(host.start(script))
    except Err as refused:
        name = getattr(refused.value, "name", "")
    if name == "NOT_FOUND":
        raise not_found(mount, script)
    kind, why = REFUSALS.get(name, ("UNREADABLE", "cannot be read"))
    raise failure(kind, f"{script}: {why}")


def put(mount, files):
    """Writes the files of a call into the skill's folder, as the call sees it."""
    # Paths from there: the folders above are none of the call's.
    os.chdir(mount)
    for file in files:
        path = inside(file["path"])
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
            why = lacks.READ_ONLY if error.errno in (errno.EROFS, errno.EPERM) else os.strerror(error.errno)
            raise failure("REFUSED", f"{path}: cannot be written: {why}") from None


def run_skill_script(mount, script, args=(), stdin="", files=(), **_):
    script = inside(script)
    source = start(mount, script)
    put(mount, files)
    done = execute.run(BAKED, mount, script, source, args, stdin.encode())
    host.finished(done.exit_code)
    details = {
        "exit_code": done.exit_code,
        "stdout": done.output.text(execute.STDOUT),
        "stderr": done.output.text(execute.STDERR),
        "left_out": done.output.left_out,
        "notes": done.notes.lines,
    }
    return wit.Output(done.text(), dumps(details))


def in_line(text):
    """Return text as a part of one line, with line breaks and hidden characters as escapes."""
    def is_plain(char):
        # A space that breaks no line is plain.
        return char.isprintable() or (char.isspace() and char.splitlines() == [char])

    return "".join(char if is_plain(char) else char.encode("unicode_escape").decode() for char in text)


def shown(path):
    """Return a path that begins no line and passes for no verdict."""
    is_plain = all(char.isalnum() or char in "-_./" for char in path)
    return path if is_plain else dumps(path)


def check_skill_scripts(mount, script=None, **_):
    judge = Judge(BAKED, mount)
    if script is None:
        scripts, more = judge.scripts(MOST_SCRIPTS)
    else:
        scripts, more = [inside(script)], False
        if not os.path.isfile(f"{mount}/{scripts[0]}"):
            raise not_found(mount, scripts[0])
    records = [judge.judge(path) for path in scripts]
    lines = []
    for record in records:
        what = f" - {in_line(record['description'])}" if record["description"] else ""
        lines.append(f"{shown(record['script'])}: {record['verdict']}{what}")
        for reason in record["reasons"]:
            where = "" if reason["path"] == record["script"] else f"{shown(reason['path'])}, "
            line = f"line {reason['line']}: " if reason["line"] else ""
            instead = f": {in_line(reason['instead'])}" if reason["instead"] else ""
            lines.append(f"  {where}{line}{in_line(reason['needs'])}{instead}")
    if more:
        lines.append(f"[only the first {MOST_SCRIPTS} scripts]")
    text = "\n".join(lines) or "This skill has no Python scripts."
    return wit.Output(text, dumps({"scripts": records, "more": more}))


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
            raise failure("FAILED", f"{name} broke off: {type(error).__name__}: {error}") from None


BAKED = Baked()
BAKED.load()
lacks.replace()
streams.replace()
modules.replace()
execute.hide_frames()
heap.settle(BAKED)
