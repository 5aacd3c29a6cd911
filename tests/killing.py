"""Processes that die, and disks that are full, before the n-th change of a file."""

import errno
import multiprocessing
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

# Every call that changes a file system is announced to audit hooks beforehand.
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
NEED_SPACE = {"open", "os.rename", "os.mkdir"}


def forking():
    """Return a context whose processes have imported everything already.

    One server forks for all tests of a process, whoever asks first: it must know what
    all of them need.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            *("openset.bench.run", "sklearn.datasets", "array_api_compat.numpy"),
            *("tests.bench.test_kills", "tests.train.test_run"),
            *("tests.contract.test_files", "openset.cli.train"),
            "tests.integrations.test_torchmetrics",
            "lightning_fabric",  # training imports it, which takes seconds
        ]
    )
    return context


def is_killed(target, *arguments):
    """Whether a function is killed, which runs in a process of its own."""
    process = forking().Process(target=target, args=arguments)
    process.start()
    process.join()
    assert process.exitcode in {0, -signal.SIGKILL}
    return process.exitcode != 0


def die_before_change(count, folder, kinds=CHANGES):
    """From now on, let this process kill itself before a change in a folder."""
    sys.addaudithook(_Looking(count, folder, kinds, _die))


@contextmanager
def disk_full_at_change(count, folder):
    """Let a change in a folder fail; what is yielded says whether it came to that."""
    looking = _Looking(count, folder, NEED_SPACE, _refuse)
    sys.addaudithook(looking)  # for good: it cannot be taken away again
    try:
        yield looking
    finally:
        looking.kinds = ()


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _refuse():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Looking:
    def __init__(self, count, folder, kinds, action):
        self.count, self.folder = count, folder
        self.kinds, self.action, self.is_reached = kinds, action, False

    def __call__(self, event, arguments):
        if event in self.kinds and _is_change(event, arguments, self.folder):
            self.count -= 1
            if self.count == 0:
                self.is_reached = True
                self.action()


def _is_change(event, arguments, folder):
    path = arguments[0]
    if event == "open":
        is_written = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if isinstance(path, int) or not is_written:
            return False
    path = Path(os.fsdecode(path))
    # Relative paths are of a tree that is being deleted.
    return path.is_relative_to(folder) or not path.is_absolute()
