"""Locks between processes; temporary folders that do not outlive them."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Error codes of file systems without locks, such as some network folders.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


@contextmanager
def locked(path: Path, *, busy: str = "", wait: float = 0) -> Iterator[bool]:
    """Hold the lock file `path`; only one process or thread can at a time.

    Waits until the lock is free; with a message `busy`, raises BlockingIOError if it is
    not after `wait` seconds.
    The operating system releases the lock when the process ends, even if it is killed;
    the file stays. Yields False, without a lock, if the file system has no locks.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # not for `import openset`

    path.parent.mkdir(parents=True, exist_ok=True)
    # The soft lock that filelock falls back to would not be released by a killed
    # process.
    lock = FileLock(path, fallback_to_soft=False)
    is_held = True
    try:
        lock.acquire(timeout=wait if busy else -1)
    except Timeout as error:
        raise BlockingIOError(busy) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        is_held = False
    try:
        yield is_held
    finally:
        lock.release()


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a temporary folder; also remove those that killed processes left behind.

    The lock in a folder is that of the process that uses it.
    """
    for lock in Path(tempfile.gettempdir()).glob(f"{prefix}*/.lock"):
        # Still in use, or gone meanwhile.
        with suppress(OSError):
            with locked(lock, busy="in use") as is_held:
                if is_held:
                    shutil.rmtree(lock.parent, ignore_errors=True)
            if is_held:  # Windows keeps the lock until it is released
                shutil.rmtree(lock.parent, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=prefix) as name,
        locked(Path(name) / ".lock"),
    ):
        yield Path(name)
