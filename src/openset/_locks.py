"""Locks between processes."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Error codes of file systems without locks, such as some network folders.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


@contextmanager
def locked(path: Path, *, busy: str = "") -> Iterator[None]:
    """Hold the lock file `path`; only one process or thread can at a time.

    Waits until the lock is free; with a message `busy`, raises BlockingIOError instead.
    The operating system releases the lock when the process ends, even if it is killed;
    the file stays. Where the file system has no locks, nothing is locked.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # not for `import openset`

    path.parent.mkdir(parents=True, exist_ok=True)
    # The soft lock that filelock falls back to would outlive a killed process.
    lock = FileLock(path, timeout=0 if busy else -1, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(busy) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()
