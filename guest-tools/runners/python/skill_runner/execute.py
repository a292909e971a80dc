"""One run of a script, as `python3 SCRIPT ARGS…` would do it in the skill's folder."""

import atexit
import builtins
import importlib.util
import linecache
import os
import random
import sys
import tempfile
import traceback
import types
import uuid

from . import lacks, modules
from .streams import STDERR, STDOUT, Streams

# The folder of the runner's own code, which no traceback shows.
RUNNER = os.path.dirname(os.path.dirname(__file__)) + "/"
TEMPORARY = "/tmp"


class Ended(BaseException):
    """The script has called `os._exit`."""


class Run:
    """What a script did."""

    def __init__(self, exit_code, output, notes):
        self.exit_code = exit_code
        self.output = output
        self.notes = notes

    def text(self):
        """What a model reads."""
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
    """Runs a script of the skill at `mount`, whose bytes are `source`."""
    notes = lacks.NOTES
    path = f"{mount}/{script}"
    folder = os.path.dirname(path)
    main = _fresh(mount, path)
    streams = Streams(stdin)
    end = _Exit()
    baked.missing = _note_missing(notes, mount)
    sys.argv[:] = [script, *args]
    # Modules beside the script go first. With `-m`, the skill's folder would be there.
    sys.path[:] = [folder] if folder == mount else [folder, mount]
    sys.path_importer_cache.clear()
    modules.list_names(sys.path)
    linecache.cache[path] = _lines(source, path)
    hidden = baked.enter(main)
    try:
        code = _call(lambda: exec(_compile(source, path), main.__dict__), end, notes)
        code = end.code if end.code is not None else _last(code, end)
    finally:
        sys.modules.update(hidden)
    streams.flush()
    return Run(code & 0xFF, streams.output, notes)


def _compile(source, path):
    return compile(source, path, "exec", dont_inherit=True)


def _lines(source, path):
    """The lines of a script for tracebacks, whatever becomes of its file."""
    try:
        lines = importlib.util.decode_source(source).splitlines(keepends=True)
    except (SyntaxError, UnicodeError):
        lines = []
    return len(source), None, lines, path


def _last(code, end):
    """Does what an interpreter does when its script has ended."""
    try:
        atexit._run_exitfuncs()
    except Ended:
        return end.code
    except BaseException:
        # They have been reported.
        pass
    return code


def _call(function, end, notes):
    """The exit code of a script, and what an interpreter prints at its end."""
    try:
        function()
    except Ended:
        end.settle()
        return end.code
    except SystemExit as left:
        return _left(left.code)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in lacks.ERRORS:
            notes.add(lacks.ERRORS[error.errno])
        return _broken(error, end)
    return 0


def _print_exception(kind, error, trace):
    """Does what the interpreter's own hook does. That imports `traceback` first, and a script may
    have broken imports, or `print`."""
    if sys.stderr is not None:
        sys.stderr.write("".join(traceback.format_exception(kind, error, trace)))


def _left(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    try:
        print(code, file=sys.stderr)
    except BaseException:
        # It has closed stderr, or has no text.
        pass
    return 1


def _broken(error, end):
    try:
        hook = _print_exception if sys.excepthook is sys.__excepthook__ else sys.excepthook
        hook(type(error), error, error.__traceback__)
    except Ended:
        end.settle()
        return end.code
    except SystemExit as left:
        return _left(left.code)
    except BaseException:
        try:
            _print_exception(type(error), error, error.__traceback__)
        except BaseException:
            # There is no place to print it.
            pass
    return 130 if isinstance(error, KeyboardInterrupt) else 1


class _Exit:
    """Stands in for `os._exit`, which would end the component without an answer. From then on each
    line of the script ends it: no handler can go on."""

    TOOL = 5

    def __init__(self):
        self.code = None
        os._exit = self.leave

    def leave(self, status):
        if self.code is None:
            self.code = int(status)
            monitoring = sys.monitoring
            monitoring.use_tool_id(self.TOOL, "os._exit")
            monitoring.register_callback(self.TOOL, monitoring.events.LINE, self.again)
            monitoring.set_events(self.TOOL, monitoring.events.LINE)
        raise Ended

    def again(self, code, line):
        if not code.co_filename.startswith(RUNNER):
            raise Ended

    def settle(self):
        """Lets code run again."""
        if self.code is not None:
            sys.monitoring.set_events(self.TOOL, 0)


def _fresh(mount, path):
    """Lets nothing of the build show that a call has of its own. Returns the script's module."""
    os.reload_environ()
    os.environ["HOME"] = mount
    os.environ["TMPDIR"] = TEMPORARY
    os.chdir(mount)
    modules.Skill.mount = mount
    # Its generator was seeded when the component was built.
    random.seed()
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = builtins
    main.__cached__ = None
    return main


def forget():
    """Lets nothing of the build show that is the same for all calls."""
    # What scripts start their like with; the refusal names it.
    sys.executable = "python3"
    # Compiled modules would be files that the script changed, and code that nobody has looked at.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = f"{TEMPORARY}/no-bytecode"
    tempfile.tempdir = None
    tempfile._name_sequence = None
    uuid._node = uuid._last_timestamp = None
    linecache.clearcache()


def _note_missing(notes, mount):
    def missing(name, path):
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        # What the standard library does without is its own affair.
        if frame is not None and frame.f_code.co_filename.startswith(mount + "/"):
            written = modules.written(name, sys.path if path is None else path)
            notes.add(modules.refusal(written) if written else lacks.module(name))

    return missing


def hide_frames():
    """Keeps the runner's frames out of tracebacks and stacks."""
    walk_tb, walk_full, walk_stack = (
        traceback.walk_tb, traceback._walk_tb_with_full_positions, traceback.walk_stack)

    def is_shown(frame):
        return not frame.f_code.co_filename.startswith(RUNNER)

    def shown(walk):
        def walk_shown(start):
            return (found for found in walk(start) if is_shown(found[0]))
        return walk_shown

    traceback.walk_tb = shown(walk_tb)
    traceback.walk_stack = shown(walk_stack)
    traceback._walk_tb_with_full_positions = shown(walk_full)
