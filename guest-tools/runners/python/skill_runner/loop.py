"""asyncio's event loop without sockets: runs ready callbacks, and sleeps until the next timer."""

import asyncio
import asyncio.unix_events
import time


class _Timers:
    """Replaces the selector. It waits only for timers."""

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError("asyncio waits for something that cannot come: the sandbox has no "
                               "network, no processes and no threads")
        if timeout > 0:
            time.sleep(timeout)
        return []


class Loop(asyncio.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = _Timers()

    def _process_events(self, events):
        """Does nothing: there are no events."""

    def _write_to_self(self):
        """Does nothing: no other thread has added work."""


asyncio.unix_events._UnixDefaultEventLoopPolicy._loop_factory = Loop
asyncio.SelectorEventLoop = asyncio.EventLoop = Loop
