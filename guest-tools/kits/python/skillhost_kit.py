"""Connects a tool's function with the interface skillhost:tool.

A tool is a function with the decorator `tool`. Its type hints give the JSON Schema of its
arguments, and its docstring gives the description. The function returns a text for the model,
or an `Output` with a record for programs. It raises `Failure` if it has no answer.

All modules are imported when the component is built: a call has no other modules. Then
`skillhost_imports` also imports the modules that functions import when they run.

The modules `wit_world` and `componentize_py_types` exist only when the component is built.
"""

import errno
import gc
import inspect
import json
import os
import sys
import traceback
import typing
from dataclasses import dataclass
from types import NoneType, UnionType

import skillhost_imports
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import answer
from wit_world.exports import tools as wit

# The default maximum size of a file to read, in bytes.
LARGEST = 1 << 20
# The default maximum size of a file to answer with, in bytes.
LARGEST_ANSWER = 1 << 24
# The default maximum number of names or files to list.
MAX_LISTED = 10_000
# The maximum number of bytes in one read. A read allocates all bytes that it requests.
MAX_CHUNK_BYTES = 1 << 16
# The number of free bytes at the end of the memory when a call starts.
FREE_BYTES = 1 << 20
# The objects that fill the holes of the memory.
FILLERS = []
OUTSIDE_MESSAGE = "Path traversal detected: cannot access files outside skill folder"


class Failure(Exception):
    """The failure of a call: its kind, and a message for the model."""

    def __init__(self, kind, message, details=None):
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.details = details

    @classmethod
    def invalid_arguments(cls, message, details=None):
        """Returns a failure for invalid arguments, which the caller can correct."""
        return cls(wit.FailureKind.INVALID_ARGUMENTS, message, details)

    @classmethod
    def not_found(cls, message, details=None):
        """Returns a failure for something that the call names and that does not exist."""
        return cls(wit.FailureKind.NOT_FOUND, message, details)

    @classmethod
    def refused(cls, message, details=None):
        """Returns a failure for a request that is not allowed."""
        return cls(wit.FailureKind.REFUSED, message, details)

    @classmethod
    def unreadable(cls, message, details=None):
        """Returns a failure for something that exists but cannot be read."""
        return cls(wit.FailureKind.UNREADABLE, message, details)

    @classmethod
    def failed(cls, message, details=None):
        """Returns a failure for a tool that could not do its work."""
        return cls(wit.FailureKind.FAILED, message, details)


@dataclass
class Output:
    """A text for the model, and a record (a dict) for programs."""

    text: str
    details: dict | None = None


class Folder:
    """The one folder that a call may read: the folder of the skill that it names."""

    def __init__(self, mount, skill=None, path=None):
        self._mount = mount
        # The skill's name; None for the host's home folder.
        self.skill = skill
        # The call's path relative to this folder, if the call names no skill.
        self.path = path

    def open(self, path):
        """Opens a file for reading bytes, so that a large file need not be in memory as a whole."""
        check_path(path)
        try:
            return open(f"{self._mount}/{path}", "rb")
        except OSError as error:
            raise _unreadable(path, error) from None

    def read_bytes(self, path, limit=LARGEST):
        """Returns the bytes of a file of at most `limit` bytes."""
        content = bytearray()
        with self.open(path) as file:
            try:
                while len(content) <= limit and (
                    chunk := file.read(min(MAX_CHUNK_BYTES, limit + 1 - len(content)))
                ):
                    content += chunk
            except OSError as error:
                raise _unreadable(path, error) from None
        if len(content) > limit:
            raise Failure.unreadable(f"{path}: larger than {limit} bytes")
        return bytes(content)

    def read_text(self, path, limit=LARGEST):
        """Returns the text of a file of at most `limit` bytes, without its byte order mark."""
        try:
            return self.read_bytes(path, limit).decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise Failure.unreadable(f"{path}: not valid UTF-8 text") from None

    def answer_file(self, path, limit=LARGEST_ANSWER):
        """Returns a file of at most `limit` bytes as the answer. The host reads the file, which
        is much faster if it is large."""
        check_path(path)
        try:
            answer.text_from_file(path, limit)
        except Err as error:
            raise _unusable(path, error.value, limit) from None
        return Output("")

    def list(self, path=".", most=MAX_LISTED):
        """Returns the names in a folder, sorted. The names of folders end with a slash. Fails if
        there are more than `most`."""
        check_path(path)
        names = [f"{it.name}/" if _is_folder(it) else it.name for it in self._entries(path)]
        if len(names) > most:
            raise Failure.unreadable(f"{path}: more than {most} names")
        return sorted(names)

    def files(self, path=".", most=MAX_LISTED):
        """Returns the paths of the files in a folder and in its subfolders, sorted. Does not
        follow symlinks to folders. Fails if there are more than `most`."""
        check_path(path)
        files, folders = [], [os.path.normpath(path)]
        while folders:
            folder = folders.pop()
            for entry in self._entries(folder):
                entry_path = os.path.normpath(f"{folder}/{entry.name}")
                if not _is_folder(entry):
                    files.append(entry_path)
                elif not entry.is_symlink():
                    folders.append(entry_path)
            if len(files) > most:
                raise Failure.unreadable(f"{path}: more than {most} files")
        return sorted(files)

    def _entries(self, path):
        full_path = f"{self._mount}/{path}"
        try:
            with os.scandir(full_path) as entries:
                return list(entries)
        except NotADirectoryError as error:
            if os.path.exists(full_path):
                raise Failure.unreadable(f"{path}: is not a directory") from None
            raise _unreadable(path, error) from None
        except OSError as error:
            raise _unreadable(path, error) from None


def _is_folder(entry):
    try:
        return entry.is_dir()
    except OSError:
        # The entry is a symlink that leads out of the folder, or to itself.
        return False


def log(text):
    """Writes a line to the operator's log, which `skillhost --log info` shows."""
    print(text, file=sys.stderr, flush=True)


def variable(name):
    """Returns the value of an environment variable, or None if the operator did not set it."""
    # `os.environ` still has the variables of the build.
    os.reload_environ()
    return os.environ.get(name)


def check_path(path):
    """Refuses a path that leaves the folder at any step on any system. This check and the sandbox
    do not rely on each other."""
    if not path:
        raise Failure.invalid_arguments("path is empty")
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in path):
        raise Failure.invalid_arguments("path contains control characters")
    is_absolute = path[0] in "/\\" or (path[1:2] == ":" and path[0].isascii() and path[0].isalpha())
    if is_absolute or _leaves_folder(path) or _leaves_folder(path.replace("\\", "/")):
        raise Failure.refused(f"{path}: {OUTSIDE_MESSAGE}")


def _leaves_folder(path):
    depth = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def _unreadable(path, error):
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Failure.not_found(f"{path}: not found")
    if error.errno == errno.EPERM:
        # A symlink in the path leads out of the folder.
        return Failure.refused(f"{path}: {OUTSIDE_MESSAGE}")
    reason = {
        errno.EISDIR: "is a directory",
        errno.EACCES: "permission denied",
        errno.ENOTSUP: "is not a regular file",
        errno.EMLINK: "has several hard links",
        errno.EXDEV: "lies on another mount",
        errno.ELOOP: "too many levels of symbolic links",
        errno.ENAMETOOLONG: "name too long",
        errno.EILSEQ: "holds a name that is not UTF-8",
    }.get(error.errno, "cannot be read")
    return Failure.unreadable(f"{path}: {reason}")


def _unusable(path, code, limit):
    """Returns the failure for a file that cannot be an answer."""
    match code:
        case answer.Unusable.NOT_FOUND:
            return Failure.not_found(f"{path}: not found")
        case answer.Unusable.OUTSIDE:
            return Failure.refused(f"{path}: {OUTSIDE_MESSAGE}")
    reason = {
        answer.Unusable.IS_DIRECTORY: "is a directory",
        answer.Unusable.NOT_REGULAR: "is not a regular file",
        answer.Unusable.HARD_LINKED: "has several hard links",
        answer.Unusable.OTHER_MOUNT: "lies on another mount",
        answer.Unusable.PERMISSION_DENIED: "permission denied",
        answer.Unusable.SYMLINK_LOOP: "too many levels of symbolic links",
        answer.Unusable.NAME_TOO_LONG: "name too long",
        answer.Unusable.TOO_LARGE: f"larger than {limit} bytes",
        answer.Unusable.NOT_UTF8: "not valid UTF-8 text",
    }.get(code, "cannot be read")
    return Failure.unreadable(f"{path}: {reason}")


def tool(*, title="", skill=None, path=None, list_skills=False, output_schema=None):
    """Makes a function a tool.

    `skill` is the name of the parameter that holds a skill's name: a call may read that skill's
    folder, which the function gets as its parameter `folder`. `path` is the name of the parameter
    that holds a path in the folder. `list_skills` lists the skills' names in the schema.
    """

    def mark(function):
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__name__}: it is async, and a call waits for nothing")
        hints = typing.get_type_hints(function, include_extras=True)
        properties, required, optional = {}, [], []
        parameters = inspect.signature(function).parameters
        for name, parameter in parameters.items():
            if name == "folder":
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(
                    f"{function.__name__}: `{parameter}` is not a named argument; for several "
                    "values, use a parameter with the hint list[…]"
                )
            if name not in hints:
                raise TypeError(f"{function.__name__}: the parameter `{name}` has no type hint")
            try:
                schema, may_be_none = _schema(hints[name])
            except TypeError as error:
                raise TypeError(f"{function.__name__}: the parameter `{name}`: {error}") from None
            if parameter.default is inspect.Parameter.empty:
                (optional if may_be_none else required).append(name)
            elif parameter.default is not None:
                if not isinstance(parameter.default, (str, int, float, list)):
                    raise TypeError(
                        f"{function.__name__}: the default of `{name}` is not a JSON value; use "
                        "str, int, float, bool, a list of them, or None"
                    )
                schema["default"] = parameter.default
            properties[name] = schema
        for option, parameter_name in (("skill", skill), ("path", path)):
            if parameter_name is not None and parameter_name not in properties:
                raise TypeError(
                    f"{function.__name__}: `{option}` names `{parameter_name}`, which is not a parameter"
                )
        if not function.__doc__:
            raise TypeError(f"{function.__name__}: it has no docstring, which the model reads")
        folder = None
        if skill is not None:
            folder = wit.FolderRule(skill, list_skills, path, False)
        function.definition = wit.Definition(
            name=function.__name__,
            title=title,
            description=" ".join(inspect.getdoc(function).split()),
            input_schema=json.dumps(
                {"type": "object", "properties": properties, "required": required}
            ),
            output_schema=None if output_schema is None else json.dumps(output_schema),
            folder=folder,
            text_property=None,
            model_reads=wit.Form.TEXT,
        )
        function.optional = optional
        function.takes_folder = "folder" in parameters
        return function

    return mark


def _schema(hint):
    """Returns the JSON Schema of a type hint, and whether the value is optional."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema, may_be_none = _schema(arguments[0])
        for note in arguments[1:]:
            schema |= {"description": note} if isinstance(note, str) else note
        return schema, may_be_none
    if origin in (typing.Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _schema(inner)[0], True
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])[0]}, False
    plain = {str: "string", int: "integer", float: "number", bool: "boolean"}
    if origin is typing.Literal and len(kinds := {type(value) for value in arguments}) == 1:
        return _schema(kinds.pop())[0] | {"enum": list(arguments)}, False
    if hint not in plain:
        raise TypeError(
            f"{hint} has no schema; use str, int, float, bool, list[…], Literal[…] of one type, "
            "or one of these with | None"
        )
    return {"type": plain[hint]}, False


def export(*functions):
    """Returns the class of a component with these tools. Its name must be `Tools`."""
    for function in functions:
        if not hasattr(function, "definition"):
            name = getattr(function, "__name__", function)
            raise TypeError(f"{name} is not a tool: put `@tool(…)` above its function")
    by_name = {function.definition.name: function for function in functions}

    class Tools(exports.Tools):
        def definitions(self):
            return [function.definition for function in functions]

        def call(self, name, arguments, folder):
            try:
                return _run(by_name[name], json.loads(arguments), folder)
            except Failure as failure:
                details = None if failure.details is None else json.dumps(failure.details)
                raise Err(wit.Failure(failure.kind, failure.message, details)) from None
            except Exception as error:
                # An error of `skillhost_http` says enough.
                if kind := getattr(error, "failure_kind", None):
                    raise Err(wit.Failure(wit.FailureKind[kind], str(error), None)) from None
                # The operator's log gets the traceback: `skillhost --log info call …`.
                traceback.print_exc(file=sys.stderr)
                message = f"{name} failed: {type(error).__name__}: {error}"
                message += skillhost_imports.hint(error)
                raise Err(wit.Failure(wit.FailureKind.FAILED, message, None)) from None

    skillhost_imports.bake()
    _fill_holes()
    return Tools


def _fill_holes():
    """Fills the holes that imports left between objects.

    Each call starts with the memory of the build, and after it the host restores each page that it
    wrote. Without this, a call's new objects would be spread over a thousand pages; at the end of
    the memory they need only a few."""
    gc.collect()
    end = id(bytes(FREE_BYTES))
    size = FREE_BYTES
    while size > 2:
        size = size * 3 // 4
        while id(filler := bytes(size)) < end:
            FILLERS.append(filler)
    while id(filler := object()) < end:
        FILLERS.append(filler)
    gc.freeze()


def _run(function, arguments, folder):
    if function.takes_folder:
        arguments["folder"] = _folder(folder)
    for name in function.optional:
        arguments.setdefault(name, None)
    answer = function(**arguments)
    if isinstance(answer, str):
        answer = Output(answer)
    if not isinstance(answer, Output):
        raise TypeError(f"it returns {type(answer).__name__}, and neither str nor Output")
    details = None if answer.details is None else json.dumps(answer.details)
    return wit.Output(answer.text, details)


def _folder(folder):
    match folder:
        case wit.Folder_Open(value=opened):
            return Folder(opened.mount, opened.skill, opened.path)
        case wit.Folder_UnknownSkill():
            raise Failure.not_found(
                "There is no skill of that name. list_skills lists all skills."
            )
        case wit.Folder_Unreadable():
            raise Failure.unreadable("The skill's folder cannot be read.")
        case wit.Folder_NoHome():
            raise Failure.invalid_arguments("Name a skill: no home folder is configured.")
        case wit.Folder_Outside():
            raise Failure.refused(OUTSIDE_MESSAGE)
    raise Failure.failed("This tool was not given a folder to read.")
