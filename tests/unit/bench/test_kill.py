"""Killed at every point where files change: the results are those of a calm run."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pytest

from openset import bench, runs
from openset.bench import parse
from tests.unit.bench.studies import contents

STUDY = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4,
             validation: 0.2, max_train: 60, max_test: 60}]
models: [{kind: mlp, hidden: 4, epochs: 1}]
detectors: [msp, energy, {name: knn, k: 3}]
calibrate: {surrogate: mixup}
"""
N_CELLS = 3
# Every call that changes a file system is announced to audit hooks beforehand.
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
# A file is complete when it is renamed, and its temporary name is removed just after.
STEPS = {"os.rename", "os.remove"}


def run(out):
    return bench.run(parse(STUDY, "study.yaml"), out, backend="sequential")


def run_and_die(out, kinds, count):
    """Run, and kill this process just before its change number `count` of a file."""
    n_changes = 0

    def look(event, arguments):
        nonlocal n_changes
        if event in kinds and is_change(event, arguments, out):
            n_changes += 1
            if n_changes == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    run(out)


def is_change(event, arguments, folder):
    """Whether an event changes something in a folder."""
    path = arguments[0]
    if event == "open":
        is_written = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if isinstance(path, int) or not is_written:
            return False
    path = Path(os.fsdecode(path))
    # Relative paths are of a tree that is being deleted.
    return path.is_relative_to(folder) or not path.is_absolute()


@pytest.fixture(scope="module")
def processes():
    """Start processes that have imported everything already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["openset.bench._run", "sklearn.datasets", "array_api_compat.numpy", __name__]
    )
    return context


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the cells of a run that nobody killed."""
    out = tmp_path_factory.mktemp("calm")
    assert run(out).n_run == N_CELLS
    return contents(out)


def is_killed(processes, out, kinds, count):
    """Run in another process up to a change; return whether it came to that."""
    process = processes.Process(target=run_and_die, args=(out, kinds, count))
    process.start()
    process.join()
    assert process.exitcode in {0, -signal.SIGKILL}
    return process.exitcode != 0


def cells(out):
    return {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}


def assert_complete(out, expected):
    assert contents(out) == expected
    assert runs.failures(out) == []
    left = [path.name for path in out.rglob(".*") if path.name != ".lock"]
    assert left == []  # nothing half-written stays behind


def test_a_run_killed_at_any_step_is_finished_by_the_next(
    processes, expected, tmp_path
):
    seen = set()
    count = 1
    while is_killed(processes, out := tmp_path / str(count), STEPS, count):
        before = cells(out)
        seen.add(len(before))
        assert run(out).n_run == N_CELLS - len(before)
        assert_complete(out, expected)
        # What was finished before was not done again.
        assert before.items() <= cells(out).items()
        count += 1
    assert_complete(out, expected)
    assert seen == set(range(N_CELLS + 1))  # before the first, between any two, after


def test_a_run_killed_again_and_again_loses_nothing(processes, expected, tmp_path):
    """In one folder, one change later each time: resumed runs are killed, too."""
    before, count = {}, 1
    while is_killed(processes, tmp_path, CHANGES, count):
        assert before.items() <= cells(tmp_path).items()
        before, count = cells(tmp_path), count + 1
    assert_complete(tmp_path, expected)
