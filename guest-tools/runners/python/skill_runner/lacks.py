"""What the sandbox does not have, and what would do instead: in one line each, so that a model can
change its plan. `replace` makes calls say it where a script makes them, `judge` says it before."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
import _thread

PROCESS = "the sandbox starts no processes; call the Python function instead, or report the command to the user"
NETWORK = "the sandbox has no network; pass the data in with `files` or `stdin`"
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
# Numbers of errors that end a script. The C library has EIO for any write that fails in a stream.
ERRORS = {errno.EROFS: READ_ONLY, errno.ENOSPC: FULL, errno.EIO: FULL}

# Calls that fail, by the name that a script calls: the judge reads them, and `replace` replaces those below.
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
            "urllib.request.urlopen", "urllib.request.urlretrieve",
            "http.client.HTTPConnection", "http.client.HTTPSConnection",
            "http.server.HTTPServer", "http.server.ThreadingHTTPServer",
            "socketserver.TCPServer", "socketserver.ThreadingTCPServer", "socketserver.UDPServer",
            "smtplib.SMTP", "smtplib.SMTP_SSL", "ftplib.FTP", "ftplib.FTP_TLS", "poplib.POP3",
            "imaplib.IMAP4", "imaplib.IMAP4_SSL", "xmlrpc.client.ServerProxy",
            "asyncio.open_connection", "asyncio.start_server",
        ],
        NETWORK,
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
# Of those, the calls that only make an object, and the methods of such objects that fail.
LATER = {
    "multiprocessing.Process", "venv.EnvBuilder", "http.client.HTTPConnection", "ftplib.FTP",
    "xmlrpc.client.ServerProxy", "threading.Thread", "threading.Timer", "concurrent.futures.ThreadPoolExecutor",
}
STARTS = {"start", "submit", "request", "connect", "create"}
# Modules that are not there, by their first name.
MODULES = {
    **dict.fromkeys(["fcntl", "termios", "tty", "pty", "curses", "readline", "tkinter", "turtle",
                     "msvcrt", "prompt_toolkit", "textual"], TERMINAL),
    **dict.fromkeys(["pwd", "grp", "spwd", "resource", "syslog", "winreg", "_winapi", "winsound"],
                    "the sandbox has no users and no operating system"),
    **dict.fromkeys(["ssl", "requests", "httpx", "aiohttp", "urllib3", "websockets", "websocket",
                     "openai", "anthropic", "boto3", "botocore", "google", "azure", "paramiko",
                     "playwright", "patchright", "selenium", "mcp", "fastmcp", "fastapi", "flask",
                     "uvicorn", "yt_dlp", "googleapiclient", "slack_sdk", "tweepy", "redis",
                     "psycopg2", "pymysql", "pymongo", "claude_agent_sdk", "litellm"], NETWORK),
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
OTHER = "ask the operator to add it to the runner's `requirements.txt`, if it is pure Python"


def module(name):
    """Why a module is not there, in one line."""
    top = name.partition(".")[0]
    return f"{name}: the sandbox does not have this module; {MODULES.get(top, OTHER)}"


class Notes:
    """What a script asked for and did not get, each once."""

    # Guards against: a script that asks for thousands of things.
    MOST = 10

    def __init__(self):
        self.lines = []

    def add(self, line):
        if line not in self.lines and len(self.lines) < self.MOST:
            self.lines.append(line)
        return line


# A component makes one call, and so has one list.
NOTES = Notes()


def _refuse(name, make, why):
    def refused(*arguments, **named):
        raise make(NOTES.add(f"{name}: {why}"))

    refused.__name__ = name.rpartition(".")[2]
    return refused


def _no_program(line):
    # Scripts that can do without a program catch this.
    return FileNotFoundError(errno.ENOENT, line)


def _no_network(line):
    return OSError(errno.ENETUNREACH, line)


def _popen(self, args, *others, **named):
    program = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "")
    program = os.fsdecode(program).split(" ")[0]
    raise _no_program(NOTES.add(f"subprocess ({program[:80]}): {PROCESS}"))


async def _async_process(self, factory, *command, **named):
    program = str(command[0] if command else "")[:80]
    raise _no_program(NOTES.add(f"asyncio subprocess ({program}): {PROCESS}"))


def _start_thread(*arguments, **named):
    raise RuntimeError(NOTES.add(f"can't start new thread: {THREAD}"))


def _unknown_url(self, request):
    if request.type == "https":
        raise urllib.error.URLError(_no_network(NOTES.add(f"urllib.request: {NETWORK}")))
    raise urllib.error.URLError(f"unknown url type: {request.type}")


def _explain(module):
    """Makes a name that this module has elsewhere say why it is not here."""
    def missing(name):
        called = f"{module.__name__}.{name}"
        if called in CALLS:
            raise AttributeError(NOTES.add(f"{called}: {CALLS[called]}"), name=name, obj=module)
        raise AttributeError(
            f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

    module.__getattr__ = missing


def replace():
    """Makes every call that cannot work here say so, and note it."""
    subprocess.Popen.__init__ = _popen
    # It looks at what a start has set.
    subprocess.Popen.__del__ = lambda self: None
    os.system = _refuse("os.system", _no_program, PROCESS)
    os.popen = _refuse("os.popen", _no_program, PROCESS)
    for module in (threading, _thread):
        module._start_joinable_thread = module.start_joinable_thread = _start_thread
        module._start_new_thread = module.start_new_thread = _start_thread
    for name in ("create_connection", "create_server", "socketpair", "getaddrinfo", "gethostbyname",
                 "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, _refuse("socket." + name, _no_network, NETWORK))
    socket.socket.__init__ = _refuse("socket.socket", _no_network, NETWORK)
    socket.gethostname = lambda: "sandbox"
    urllib.request.UnknownHandler.unknown_open = _unknown_url
    for name in ("subprocess_exec", "subprocess_shell"):
        setattr(asyncio.BaseEventLoop, name, _async_process)
    _explain(os)
    _explain(signal)
