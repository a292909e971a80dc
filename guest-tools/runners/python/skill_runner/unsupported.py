"""The features that the sandbox does not support. Each has a message, in one line, that says why and what to
use instead, so that a model can change its plan. `replace` makes the calls fail with their messages; `judge`
reports them without a run."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import threading
import _thread

PROCESS = "the sandbox starts no processes; call the Python function instead, or report the command to the user"
NETWORK = (
    "network access is not granted to this tool for this address; pass the data in with `files` or `stdin`, "
    'or let an operator allow the address: `network = ["https://HOST/*"]` in the grant'
)
SOCKET = "the sandbox has no sockets, only HTTP requests; pass the data in with `files` or `stdin`"
REQUESTS = (
    "more requests or bytes than this call may have; an operator can raise `requests`, `request_bytes` and "
    "`response_bytes`"
)
THREAD = "the sandbox has no threads; call the function directly, or use asyncio"
NATIVE = "the sandbox runs no native code"
TERMINAL = "the sandbox has no terminal; use arguments and stdin"
SIGNAL = "the sandbox has no signals"
READ_ONLY = (
    "the skill's folder is read-only in this call; an operator can let scripts change a copy of it, "
    'which ends with the call: `view = "copy-on-write"` in the grant'
)
FULL = (
    "a file could not be written to its end: no space left in the copy of the folder that this call changes; "
    "write less, or let an operator raise `view_bytes`"
)
# Messages for the errors that end a script, by number. The C library reports EIO for any failed write to a stream.
ERRORS = {errno.EROFS: READ_ONLY, errno.ENOSPC: FULL, errno.EIO: FULL}

# The calls that fail, by their full names, and the reasons. `judge` uses these names; `replace` replaces the
# functions on which the calls are built.
CALLS = {
    **dict.fromkeys(
        [
            *("subprocess." + name for name in (
                "Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")),
            *("os." + name for name in (
                "system", "popen", "fork", "forkpty", "pipe", "posix_spawn", "posix_spawnp",
                *("exec" + form for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
                *("spawn" + form for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
            )),
            "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
            "multiprocessing.Process", "multiprocessing.Pool", "multiprocessing.Manager",
            "multiprocessing.Queue", "concurrent.futures.ProcessPoolExecutor",
            "pty.spawn", "venv.create", "venv.EnvBuilder",
        ],
        PROCESS,
    ),
    **dict.fromkeys(
        [
            "socket.socket", "socket.create_connection", "socket.create_server",
            "socket.socketpair", "socket.getaddrinfo", "socket.gethostbyname",
            "http.server.HTTPServer", "http.server.ThreadingHTTPServer",
            "socketserver.TCPServer", "socketserver.ThreadingTCPServer", "socketserver.UDPServer",
            "smtplib.SMTP", "smtplib.SMTP_SSL", "ftplib.FTP", "ftplib.FTP_TLS", "poplib.POP3",
            "imaplib.IMAP4", "imaplib.IMAP4_SSL",
            "asyncio.open_connection", "asyncio.start_server",
        ],
        SOCKET,
    ),
    **dict.fromkeys(
        [
            "threading.Thread", "threading.Timer", "_thread.start_new_thread",
            "concurrent.futures.ThreadPoolExecutor", "asyncio.to_thread",
            "multiprocessing.pool.ThreadPool",
        ],
        THREAD,
    ),
    "os.kill": SIGNAL,
    "os.killpg": SIGNAL,
    "signal.alarm": SIGNAL,
    "signal.setitimer": SIGNAL,
    "signal.pause": SIGNAL,
}
# Calls of these only make an object; its methods in `FAILING_METHODS` fail.
DEFERRED = {
    "multiprocessing.Process", "venv.EnvBuilder", "ftplib.FTP",
    "threading.Thread", "threading.Timer", "concurrent.futures.ThreadPoolExecutor",
}
FAILING_METHODS = {"start", "submit", "request", "connect", "create"}
# The missing modules, by the first part of their names, and the reasons.
MODULES = {
    **dict.fromkeys(["fcntl", "termios", "tty", "pty", "curses", "readline", "tkinter", "turtle",
                     "msvcrt", "prompt_toolkit", "textual"], TERMINAL),
    **dict.fromkeys(["pwd", "grp", "spwd", "resource", "syslog", "winreg", "_winapi", "winsound"],
                    "the sandbox has no users and no operating system"),
    **dict.fromkeys(["aiohttp", "websockets", "websocket",
                     "openai", "anthropic", "boto3", "botocore", "google", "azure", "paramiko",
                     "playwright", "patchright", "selenium", "mcp", "fastmcp", "fastapi", "flask",
                     "uvicorn", "yt_dlp", "googleapiclient", "slack_sdk", "tweepy", "redis",
                     "psycopg2", "pymysql", "pymongo", "claude_agent_sdk", "litellm"],
                    SOCKET + "; requests, httpx, urllib3 and urllib.request are there"),
    "ctypes": NATIVE,
    "cffi": NATIVE,
    "bz2": NATIVE + "; use zlib, gzip or zipfile",
    "lzma": NATIVE + "; use zlib, gzip or zipfile",
    **dict.fromkeys(["numpy", "pandas", "scipy", "polars", "sklearn"],
                    NATIVE + "; use csv, statistics, math or sqlite3"),
    "lxml": NATIVE + "; use xml.etree.ElementTree or defusedxml",
    "orjson": NATIVE + "; use json",
    "psutil": "the sandbox has no processes",
    **dict.fromkeys(["PIL", "cv2", "matplotlib", "seaborn", "torch", "tensorflow", "fitz", "pymupdf",
                     "cryptography", "pydantic", "pydantic_core", "rdkit", "skimage", "numba",
                     "pyarrow", "imageio", "transformers", "jax", "shapely", "geopandas"], NATIVE),
    "toml": "use tomllib",
    "tomli": "use tomllib",
    "simplejson": "use json",
    "bs4": "use html.parser, or ask the operator to add it to the runner's `requirements.txt`",
    "pytest": "use unittest, or ask the operator to add it to the runner's `requirements.txt`",
}
OTHER_MODULE = "ask the operator to add it to the runner's `requirements.txt`, if it is pure Python"


def module_message(name):
    """Returns the message for a missing module."""
    top = name.partition(".")[0]
    return f"{name}: the sandbox does not have this module; {MODULES.get(top, OTHER_MODULE)}"


class Notes:
    """Notes about unsupported features that a script used, without repetitions."""

    # Guards against: a script that uses thousands.
    MAX_LINES = 10

    def __init__(self):
        self.lines = []

    def add(self, line):
        if line not in self.lines and len(self.lines) < self.MAX_LINES:
            self.lines.append(line)
        return line


# The notes of the call. An instance of the component serves one call.
NOTES = Notes()


def _failing(name, make_error, reason):
    """Returns a function that fails with the error that `make_error` makes from a message."""
    def fail(*arguments, **named):
        raise make_error(NOTES.add(f"{name}: {reason}"))

    fail.__name__ = name.rpartition(".")[2]
    return fail


def _process_error(line):
    # Scripts that do not need the program catch `FileNotFoundError`.
    return FileNotFoundError(errno.ENOENT, line)


def _network_error(line):
    return OSError(errno.ENETUNREACH, line)


def _popen(self, args, *others, **named):
    program = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "")
    program = os.fsdecode(program).split(" ")[0]
    raise _process_error(NOTES.add(f"subprocess ({program[:80]}): {PROCESS}"))


async def _async_process(self, factory, *command, **named):
    program = str(command[0] if command else "")[:80]
    raise _process_error(NOTES.add(f"asyncio subprocess ({program}): {PROCESS}"))


def _start_thread(*arguments, **named):
    raise RuntimeError(NOTES.add(f"can't start new thread: {THREAD}"))


def _explain_missing_names(module):
    """Makes the error of a missing name say why, if the module has this name on other systems."""
    def missing(name):
        full_name = f"{module.__name__}.{name}"
        if full_name in CALLS:
            raise AttributeError(NOTES.add(f"{full_name}: {CALLS[full_name]}"), name=name, obj=module)
        raise AttributeError(
            f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

    module.__getattr__ = missing


def replace():
    """Replaces unsupported functions with ones that fail with a message and note it."""
    subprocess.Popen.__init__ = _popen
    # The original reads attributes that only a started process has.
    subprocess.Popen.__del__ = lambda self: None
    os.system = _failing("os.system", _process_error, PROCESS)
    os.popen = _failing("os.popen", _process_error, PROCESS)
    for module in (threading, _thread):
        module._start_joinable_thread = module.start_joinable_thread = _start_thread
        module._start_new_thread = module.start_new_thread = _start_thread
    for name in ("create_server", "socketpair", "getaddrinfo", "gethostbyname",
                 "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, _failing("socket." + name, _network_error, SOCKET))
    socket.socket.__init__ = _failing("socket.socket", _network_error, SOCKET)
    socket.gethostname = lambda: "sandbox"
    for name in ("subprocess_exec", "subprocess_shell"):
        setattr(asyncio.BaseEventLoop, name, _async_process)
    _explain_missing_names(os)
    _explain_missing_names(signal)
