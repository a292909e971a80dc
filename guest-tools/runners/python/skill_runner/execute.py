"""Runs a script as `python3 SCRIPT ARGS…` would in the skill's folder."""

import atexit
import builtins
import gc
import importlib.util
import io
import linecache
import operator
import os
import pathlib
import random
import shutil
import sys
import tempfile
import traceback
import types
import uuid

from . import unsupported, modules
from .streams import STDERR, STDOUT, Streams, flush

# The folder of the runner's own code. Tracebacks do not show its frames.
RUNNER_FOLDER = os.path.dirname(os.path.dirname(__file__)) + "/"
TEMPORARY_FOLDER = "/tmp"
# The files with buffers, in the order to flush them: a text file writes into a buffer of the others.
BUFFERED_FILES = io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom
# A script can replace these functions.
_get_objects, _freeze, _unfreeze = gc.get_objects, gc.freeze, gc.unfreeze
TRACERS = sys.settrace, sys.setprofile


class ScriptExit(BaseException):
    """The exception that ends a script after it has called `os._exit`."""


class RunResult:
    """The result of a run: the exit code, the output and the notes."""

    def __init__(self, exit_code, output, notes):
        self.exit_code = exit_code
        self.output = output
        self.notes = notes

    def text(self):
        """Returns the text for the model."""
        text = self.output.text()
        lines = [line for line in self.notes.lines if line not in text] if self.exit_code else []
        if self.exit_code or not text:
            code = f"exit code {self.exit_code}"
            lines.append(code if text else code + ", no output")
        if not lines:
            return text
        if text and not text.endswith("\n"):
            text += "\n"
        return text + "\n".join(f"[{line}]" for line in lines)


def run(baked, mount, script, source, args, stdin):
    """Runs a script of the skill at `mount`. `source` is the bytes of the script."""
    notes = unsupported.NOTES
    path = f"{mount}/{script}"
    folder = os.path.dirname(path)
    _prepare(mount)
    streams = Streams(stdin)
    exit_hook = _ExitHook()
    baked.missing = _note_missing(notes, mount)
    sys.argv[:] = [script, *args]
    # Python adds the script's folder. The skill's folder is added as for `python3 -m`.
    sys.path[:] = [folder] if folder == mount else [folder, mount]
    sys.path_importer_cache.clear()
    modules.list_names(sys.path)
    linecache.cache[path] = _lines(source, path)
    hidden = baked.enter(_main_module(path))
    # From now on, the garbage collector knows only the script's objects.
    _freeze()
    try:
        code = _call(source, path, exit_hook, notes)
        for step in (atexit._run_exitfuncs, streams.restore, _finalize):
            if exit_hook.code is None:
                _end(step)
    finally:
        # Code in C, such as that which calls `__del__`, ignores `ScriptExit`.
        exit_hook.disarm()
        _unfreeze()
        sys.modules.update(hidden)
    streams.flush()
    code = code if exit_hook.code is None else exit_hook.code
    return RunResult(code & 0xFF, streams.output, notes)


def _compile(source, path):
    return compile(source, path, "exec", dont_inherit=True)


def _lines(source, path):
    """Returns the lines of a script for tracebacks. They stay, even if the script changes its file."""
    try:
        lines = importlib.util.decode_source(source).splitlines(keepends=True)
    except (SyntaxError, UnicodeError):
        lines = []
    return len(source), None, lines, path


def _run(function, *arguments):
    """Calls a function that runs code of the script. Then removes the script's trace and profile functions, which
    would see the runner's code and could end it. They do not see the calls that `map` makes."""
    runs = map(operator.call, [function], *([it] for it in arguments))
    resets = map(operator.call, TRACERS, (None, None))
    try:
        for _ in runs:
            pass
    finally:
        for _ in resets:
            pass


def _end(step):
    """Runs a step of the end of a script."""
    try:
        _run(step)
    except BaseException:
        # An interpreter ignores these errors, or has reported them.
        pass


def _finalize():
    """Finalizes what the script left, as an interpreter does at its end. Frees nothing: to free a long chain of
    objects takes more stack than a component has."""
    objects = _get_objects()
    for it in objects:
        kind = type(it)
        if kind is types.GeneratorType and it.gi_suspended:
            _finish(it.close)
        elif issubclass(kind, io.IOBase):
            pass
        elif finalizer := getattr(kind, "__del__", None):
            _finish(finalizer, it)
        elif kind.__module__ == "sqlite3" and kind.__name__ == "Connection":
            _finish(it.close)
    # Such a file writes its end into another file.
    for it in objects:
        if issubclass(type(it), io.IOBase) and type(it).__module__ not in ("_io", Streams.__module__):
            _finish(it.close)
    for kind in BUFFERED_FILES:
        for it in objects:
            if issubclass(type(it), kind):
                flush(it)


def _finish(function, *arguments):
    """Calls a function that finalizes an object. Reports an error as an interpreter does."""
    try:
        function(*arguments)
    except ScriptExit:
        raise
    except BaseException as error:
        message = "Exception ignored while calling deallocator"
        values = type(error), error, error.__traceback__.tb_next, message, function
        sys.unraisablehook(_UnraisableArguments(values))


def _unraisable_arguments():
    """Returns the type of the argument of `sys.unraisablehook`, which no module has."""
    types_found = []

    class Failing:
        def __del__(self):
            raise ValueError

    original, sys.unraisablehook = sys.unraisablehook, lambda it: types_found.append(type(it))
    Failing()
    sys.unraisablehook = original
    return types_found[0]


_UnraisableArguments = _unraisable_arguments()


def _call(source, path, exit_hook, notes):
    """Runs a script, and prints its error as an interpreter does. Returns the exit code."""
    try:
        _run(exec, _compile(source, path), sys.modules["__main__"].__dict__)
    except ScriptExit:
        return exit_hook.code
    except SystemExit as error:
        return _system_exit_code(error.code)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in unsupported.ERRORS:
            notes.add(unsupported.ERRORS[error.errno])
        return _report_error(error, exit_hook)
    return 0


def _print_exception(kind, error, trace):
    """Prints an exception, as the interpreter's own hook does. That hook imports `traceback` first, which
    fails if the script has broken imports or `print`."""
    if sys.stderr is not None:
        sys.stderr.write("".join(traceback.format_exception(kind, error, trace)))


def _system_exit_code(code):
    """Returns the exit code of a `SystemExit`. Prints an object that is no number."""
    if code is None:
        return 0
    if isinstance(code, int):
        # A subclass can have other operators. An interpreter makes this a `long` of 64 bits, or -1.
        code = int.__index__(code)
        return code if -(1 << 63) <= code < 1 << 63 else -1
    try:
        print(code, file=sys.stderr)
    except BaseException:
        # The script has closed stderr, or the object's `__str__` fails.
        pass
    return 1


def _report_error(error, exit_hook):
    """Prints an uncaught error with the script's `sys.excepthook`. Returns the exit code."""
    try:
        hook = _print_exception if sys.excepthook is sys.__excepthook__ else sys.excepthook
        _run(hook, type(error), error, error.__traceback__)
    except ScriptExit:
        return exit_hook.code
    except SystemExit as error:
        return _system_exit_code(error.code)
    except BaseException:
        try:
            _print_exception(type(error), error, error.__traceback__)
        except BaseException:
            # stderr is closed.
            pass
    return 130 if isinstance(error, KeyboardInterrupt) else 1


class _ExitHook:
    """Replaces `os._exit`, which would end the component without an answer. After the script has called
    it, each further line of the script raises `ScriptExit`, so no handler can continue. Replaces `os.abort`
    too, with the exit code that a shell shows."""

    MONITORING_TOOL = 5

    def __init__(self):
        self.code = None
        self.is_armed = False
        # A script can replace these functions.
        self.index = operator.index
        self.monitoring = types.SimpleNamespace(**vars(sys.monitoring))
        os._exit = self.exit
        os.abort = lambda: self.exit(134)

    def exit(self, status):
        if self.code is None:
            status = self.index(status)
            if not -(1 << 31) <= status < 1 << 31:
                raise OverflowError("Python int too large to convert to C int")
            self.code = status
            # It would report each `ScriptExit` that C code ignores.
            sys.unraisablehook = lambda _: None
            # At the limit of the recursion this fails, so `finally` blocks still run.
            self.arm()
        raise ScriptExit

    def arm(self):
        """Stops all further code, even if the script has taken the tool."""
        line = self.monitoring.events.LINE
        self.monitoring.free_tool_id(self.MONITORING_TOOL)
        self.monitoring.use_tool_id(self.MONITORING_TOOL, "os._exit")
        self.monitoring.register_callback(self.MONITORING_TOOL, line, self.on_line)
        # First, because the next line already raises an error.
        self.is_armed = True
        self.monitoring.set_events(self.MONITORING_TOOL, line)

    def on_line(self, code, line):
        if not code.co_filename.startswith(RUNNER_FOLDER):
            raise ScriptExit

    def disarm(self):
        """Lets code run again."""
        if self.is_armed:
            self.monitoring.set_events(self.MONITORING_TOOL, 0)


def _prepare(mount):
    """Sets the process state that differs between calls, such as the environment."""
    os.reload_environ()
    os.environ["HOME"] = mount
    os.environ["TMPDIR"] = TEMPORARY_FOLDER
    os.chdir(mount)
    modules.Skill.mount = mount
    # Seed again: without this, all calls have the seed of the build.
    random.seed()


def _main_module(path):
    """Returns the script's module."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = builtins
    main.__cached__ = None
    return main


def reset_build_state():
    """Resets the state of the build that is the same for all calls."""
    # Scripts start other scripts with this program; the error message names it.
    sys.executable = "python3"
    # Compiled modules would be written into the skill, and no audit record would have their digests.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = f"{TEMPORARY_FOLDER}/no-bytecode"
    tempfile.tempdir = None
    tempfile._name_sequence = None
    uuid._node = uuid._last_timestamp = None
    linecache.clearcache()


def _note_missing(notes, mount):
    def missing(name, path):
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        # Ignore modules that the standard library tries to import; note only the script's imports.
        if frame is not None and frame.f_code.co_filename.startswith(mount + "/"):
            written = modules.find_written(name, sys.path if path is None else path)
            notes.add(modules.refusal(written) if written else unsupported.module_message(name))

    return missing


def accept_mounts():
    """Makes `os.makedirs` accept a mount, such as `/tmp`. The original would make the parents of a folder that
    exists, if it does not see them: no call sees the parents of a mount."""
    make = os.makedirs

    def makedirs(name, mode=0o777, exist_ok=False):
        if not os.path.isdir(name):
            make(name, mode, exist_ok)
        elif not exist_ok:
            os.mkdir(name, mode)

    os.makedirs = makedirs


def follow_links():
    """Makes comparisons of files follow symbolic links. The C library's `stat` returns the inode of the link."""
    def stat(path):
        # An error names the path as the script gave it.
        status = os.stat(path)
        return status if isinstance(path, int) else os.stat(os.path.realpath(path))

    def samefile(first, second):
        return os.path.samestat(stat(first), stat(second))

    def file_id(info, *, follow_symlinks=True):
        status = stat(info._path) if follow_symlinks else os.lstat(info._path)
        return status.st_dev, status.st_ino

    def is_same(first, second):
        try:
            return samefile(first, second)
        except OSError:
            return False

    os.path.samefile = pathlib.Path.samefile = samefile
    shutil._samefile = is_same
    # `Path.copy` and `Path.move` use it.
    pathlib._os._PathInfoBase._file_id = file_id


def hide_frames():
    """Removes the runner's frames from tracebacks and stacks."""
    walk_tb, walk_full, walk_stack = (
        traceback.walk_tb, traceback._walk_tb_with_full_positions, traceback.walk_stack)

    def is_visible(frame):
        return not frame.f_code.co_filename.startswith(RUNNER_FOLDER)

    def filtered(walk):
        def walk_visible(start):
            return (item for item in walk(start) if is_visible(item[0]))
        return walk_visible

    traceback.walk_tb = filtered(walk_tb)
    traceback.walk_stack = filtered(walk_stack)
    traceback._walk_tb_with_full_positions = filtered(walk_full)
