"""Makes two builds of the runner end with the same memory, together with `stand_ins/skillhost_memory.wat`. Random
values and times of the build would differ, and calls do not use them."""

import _imp
import importlib.machinery
import importlib.metadata
import os
import posix
import random

LIBRARY = "skillhost_memory"
# The number of the numbers that replace those in Python's lists of free objects, which have at most 100.
REPLACING_NUMBERS = 1000

_listdir = os.listdir


def listdir(path="."):
    """Lists a folder of the build, in an order that does not depend on its file system."""
    return sorted(_listdir(path))


posix.listdir = os.listdir = listdir
# The time of a folder is the key of a cache.
_folder_time, importlib.metadata.FastPath.mtime = importlib.metadata.FastPath.mtime, 0


def reset():
    """Resets what modules made when they were imported."""
    import logging
    import multiprocessing

    posix.listdir = os.listdir = _listdir
    importlib.metadata.FastPath.mtime = _folder_time
    logging._startTime = 0
    multiprocessing.current_process().authkey = b""


def restore():
    """Restores Python's allocators at the end of the build."""
    # Each call seeds again.
    random.seed(0)
    [float(number) + number for number in range(REPLACING_NUMBERS)]
    path = f"/0/stand_ins/{LIBRARY}.abi3.so"
    try:
        _imp.create_dynamic(importlib.machinery.ModuleSpec(LIBRARY, None, origin=path))
    except MemoryError:
        # It is no module.
        return
    raise ImportError(f"{path} did not restore the allocators")
