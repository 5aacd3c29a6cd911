"""Killed at every point where files change: the results are those of a calm run."""

import signal

import pytest

from openset import bench, runs
from openset.bench import parse
from tests.killing import CHANGES, die_before_change, forking
from tests.unit.bench.studies import contents

STUDY = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4,
             validation: 0.2, max_train: 60, max_test: 60}]
models: [{kind: mlp, hidden: 4, epochs: 1}]
detectors: [msp, energy, {name: knn, k: 3}]
calibrate: {surrogate: mixup}
"""
N_CELLS = 3
# A file is complete when it is renamed, and its temporary name is removed just after.
STEPS = {"os.rename", "os.remove"}


def run(out):
    return bench.run(parse(STUDY, "study.yaml"), out, backend="sequential")


def run_and_die(out, kinds, count):
    """Run, and die before a change of a file; in a process of its own."""
    die_before_change(count, out, kinds)
    run(out)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the cells of a run that nobody killed."""
    out = tmp_path_factory.mktemp("calm")
    assert run(out).n_run == N_CELLS
    return contents(out)


def is_killed(out, kinds, count):
    """Run in another process up to a change; return whether it came to that."""
    process = forking().Process(target=run_and_die, args=(out, kinds, count))
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


def test_a_run_killed_at_any_step_is_finished_by_the_next(expected, tmp_path):
    seen = set()
    count = 1
    while is_killed(out := tmp_path / str(count), STEPS, count):
        before = cells(out)
        seen.add(len(before))
        assert run(out).n_run == N_CELLS - len(before)
        assert_complete(out, expected)
        # What was finished before was not done again.
        assert before.items() <= cells(out).items()
        count += 1
    assert_complete(out, expected)
    assert seen == set(range(N_CELLS + 1))  # before the first, between any two, after


def test_a_run_killed_again_and_again_loses_nothing(expected, tmp_path):
    """In one folder, three changes later each time: resumed runs are killed, too."""
    before, count = {}, 1
    while is_killed(tmp_path, CHANGES, count):
        assert before.items() <= cells(tmp_path).items()
        before, count = cells(tmp_path), count + 3
    assert_complete(tmp_path, expected)
