"""Processes that die at a chosen point: just before the n-th change of a file."""

import multiprocessing
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

from openset import _io

# Every call that changes a file system is announced to audit hooks beforehand.
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}


KILLED = 137


@contextmanager
def at(point, where, action):
    """Call a function when a point of `_io` is reached for the first time.

    `where` is a part of the path, if several files are written. Yields a list of the
    path where it happened.
    """
    found = []

    def look(reached, path):
        if reached == point and where in str(path) and not found:
            found.append(path)
            action()

    _io.observe(look)
    try:
        yield found
    finally:
        _io.observe(None)


def forking():
    """Return a context whose processes have imported everything already.

    One server forks for all tests of a process, whoever asks first: it must know what
    all of them need.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            *("openset.bench._run", "sklearn.datasets", "array_api_compat.numpy"),
            *("tests.unit.bench.test_kill", "tests.train.test_run"),
            "tests.rejector.test_files",
            *("tests.unit.test_nothing_lost", "tests.train.test_nothing_lost"),
            *("tests.integrations.test_torchmetrics", "openset.cli.train"),
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
    n_changes = 0

    def look(event, arguments):
        nonlocal n_changes
        if event in kinds and _is_change(event, arguments, folder):
            n_changes += 1
            if n_changes == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def _is_change(event, arguments, folder):
    path = arguments[0]
    if event == "open":
        is_written = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if isinstance(path, int) or not is_written:
            return False
    path = Path(os.fsdecode(path))
    # Relative paths are of a tree that is being deleted.
    return path.is_relative_to(folder) or not path.is_absolute()
