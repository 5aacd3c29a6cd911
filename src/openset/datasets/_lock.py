"""One process at a time: a lock file that dies with the process that holds it."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAUSE = 0.1  # seconds between two tries


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock file `path`; wait while another process or thread holds it.

    The operating system gives the lock back when its holder ends, however it ends: a
    lock file left behind by a killed process is nobody's. Yields False, without a
    lock, where the file system has none (some network folders): the caller must then
    get by with names nobody else uses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            is_held = _wait(descriptor)
            if not is_held or _is_current(descriptor, path):
                break
        except BaseException:
            os.close(descriptor)
            raise
        # The holder before us removed the file we were waiting for.
        os.close(descriptor)
    try:
        yield is_held
    finally:
        if is_held:
            # Removed while it is held: whoever waits for it sees that it is gone.
            with suppress(OSError):
                path.unlink()
        os.close(descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _wait(descriptor: int) -> bool:
    """Wait for the lock; False if there are no locks here."""
    while True:
        try:
            _lock(descriptor)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError:
            return False
        else:
            return True


if sys.platform == "win32":  # pragma: no cover  # the tests run elsewhere
    import msvcrt

    def _lock(descriptor: int) -> None:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
