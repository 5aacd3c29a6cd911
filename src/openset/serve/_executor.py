"""Runs work in the event loop if it is quick, in a thread if it is not."""

import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from openset._backends import cores

T = TypeVar("T")

_SMALL = 64 << 10  # bytes
_QUICK = 0.005  # seconds
_LATELY = 9  # requests


class Executor:
    """Runs quick work in the event loop and slow work in threads.

    Handing work to a thread takes longer than most detectors need for one sample, and
    the thread then competes with the event loop for the interpreter. But work in the
    event loop blocks all other requests. So it is used while the median time of the
    last bodies of that size was short.

    Parameters
    ----------
    always_threads
        Never use the event loop: for networks.
    """

    def __init__(self, *, always_threads: bool) -> None:
        self._always_threads = always_threads
        # As many threads as cores: more would compete for cache and memory.
        self._threads = anyio.CapacityLimiter(cores())
        # Seconds of the last requests, by the bit length of the body size.
        self._seconds: dict[int, deque[float]] = {}

    async def run(self, work: Callable[[], T], n_bytes: int) -> T:
        """Run `work` on a body of `n_bytes` bytes and return its result."""
        if self._always_threads:
            return await run_sync(work, limiter=self._threads)
        size = max(n_bytes, _SMALL).bit_length()
        lately = self._seconds.setdefault(size, deque(maxlen=_LATELY))

        def timed() -> T:
            # Time of this thread: waiting for a core, or for the interpreter, does not
            # make the work slow.
            start = time.thread_time()
            try:
                return work()
            finally:
                lately.append(time.thread_time() - start)

        is_quick = median(lately) < _QUICK if lately else n_bytes <= _SMALL
        return timed() if is_quick else await run_sync(timed, limiter=self._threads)
