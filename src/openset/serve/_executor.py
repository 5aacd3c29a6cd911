"""Who does the work: the event loop itself, or a thread."""

import os
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

T = TypeVar("T")

_SMALL = 64 << 10  # bytes
_QUICK = 0.002  # seconds
_LATELY = 9  # requests


class Executor:
    """Does quick work at once and hands the rest to threads.

    To ask a thread takes longer than most detectors take for a sample, and it then
    fights the event loop for the interpreter. But while work is done at once no
    other request is served. So it is for as long as most of the last bodies of that
    size were quick; one of them may have waited for the processor.
    """

    def __init__(self) -> None:
        # As many threads as cores: more would only take each other's cache and memory.
        self._threads = anyio.CapacityLimiter(os.cpu_count() or 1)
        # How long the last ones took, by the number of bits of the size.
        self._seconds: dict[int, deque[float]] = {}

    async def run(self, work: Callable[[], T], n_bytes: int) -> T:
        """Return what `work` returns for a body of so many bytes."""
        size = max(n_bytes, _SMALL).bit_length()
        lately = self._seconds.setdefault(size, deque(maxlen=_LATELY))

        def timed(clock: Callable[[], float]) -> T:
            start = clock()
            try:
                return work()
            finally:
                lately.append(clock() - start)

        is_quick = median(lately) < _QUICK if lately else n_bytes <= _SMALL
        if is_quick:
            return timed(time.perf_counter)
        # Its own time: a thread that waits for the interpreter is not slow.
        return await run_sync(lambda: timed(time.thread_time), limiter=self._threads)
