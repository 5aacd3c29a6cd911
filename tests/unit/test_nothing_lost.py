"""Killed, or without space on the disk, at every named point where files are written.

What is killed is a process of its own, which ends there and then, without any clean-up.
Afterwards the same is done once more, undisturbed, and must end as if nothing had been.
"""

import errno
import os
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import CalibrationWarning, Rejector, _io, bench, detectors, runs, shards
from openset.bench import parse
from openset.outputs import Outputs
from openset.scores import Scores
from tests.killing import KILLED, at, forking
from tests.rejector.data import drawn
from tests.unit.bench.studies import contents

FILE, FOLDER = _io.POINTS[:4], _io.POINTS[4:10]
DISCARD = _io.POINTS[10]
OUTPUTS = {seed: drawn(40, seed=seed) for seed in (1, 2)}

# What is written, and how one sees that it is there.


def scores(seed):
    rng = np.random.default_rng(seed)
    return Scores(labels=[0, 1, -1], predicted=[0, 1, 0], known=rng.random(3))


def save_scores(folder, seed=2):
    scores(seed).save(folder / "scores.npz")


def check_scores(folder):
    known = Scores.load(folder / "scores.npz").known
    assert any(np.array_equal(known, scores(seed).known) for seed in (1, 2))


def save_outputs(folder, seed=2):
    OUTPUTS[seed].save(folder / "outputs")


def check_outputs(folder):
    found = Outputs.load(folder / "outputs").logits
    assert any(np.array_equal(found, one.logits) for one in OUTPUTS.values())


def save_folder(folder, seed=2):
    with _io.replacing_folder(folder / "pages") as temporary:
        (temporary / "page.txt").write_text(f"seed {seed}")


def check_folder(folder):
    assert (folder / "pages" / "page.txt").read_text() in {"seed 1", "seed 2"}


def rejector(seed):
    fitted = detectors.KNN(k=3).fit(drawn(100, seed=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return Rejector.calibrate(
            fitted, known=drawn(60, seed=5), surrogate=drawn(60, seed=6, unknown=True)
        )


REJECTORS = {seed: rejector(seed) for seed in (1, 2)}


def save_rejector(folder, seed=2):
    REJECTORS[seed].save(folder / "rejector")


def check_rejector(folder):
    found = Rejector.load(folder / "rejector")
    assert found.threshold in {one.threshold for one in REJECTORS.values()}


STUDY = b"""
protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, max_train: 60,
             max_test: 60}]
models: [{kind: logistic}]
detectors: [msp]
"""


def run_study(folder, seed=2):
    if seed == 1:
        return  # nothing is there before
    done = bench.run(parse(STUDY, "study.yaml"), folder / "run", backend="sequential")
    if done.failed:
        raise OSError(done.failed[0]["error"])


def check_study(folder):
    assert len(contents(folder / "run")) == 1
    assert runs.failures(folder / "run") == []
    (network,) = (folder / "run" / "networks").iterdir()
    assert _io.unsealed(network) == ""


def predict(folder, seed=2):
    if seed == 1:
        save_rejector(folder)
        OUTPUTS[1].save(folder / "shards" / "a.npz")
        return
    job = shards.Predict(folder / "rejector", format="npz")
    found = shards.find(folder / "shards")
    done = shards.run(job, found, folder / "decided", backend="sequential")
    if done.failed:
        raise OSError(done.failed[0]["error"])


def check_predict(folder):
    expected = REJECTORS[2].decide(OUTPUTS[1]).labels
    with np.load(folder / "decided" / "a.npz") as found:
        assert_array_equal(found["decision"], expected)


WRITERS = {
    "scores": (save_scores, check_scores),
    "outputs": (save_outputs, check_outputs),
    "folder": (save_folder, check_folder),
    "rejector": (save_rejector, check_rejector),
    "study": (run_study, check_study),
    "predict": (predict, check_predict),
}

# Where: the writer, the point, and a part of the path, if there are several files.
PLACES = [
    *(("scores", point, "") for point in FILE),
    *(("outputs", point, "outputs") for point in FOLDER[:2]),
    *(("outputs", point, "meta.json") for point in FILE),
    *(("folder", point, "pages") for point in FOLDER if point != FOLDER[2]),
    *(("rejector", point, "manifest") for point in FILE[2:]),
    *(("rejector", point, "state-") for point in FILE[1:3]),
    *(("study", point, "networks/") for point in FOLDER if point != FOLDER[4]),
    *(("study", point, "cells/") for point in FILE),
    *(("study", FILE[2], name) for name in ("study.yaml", "scores/", "results.csv")),
    ("study", DISCARD, "running"),
    *(("predict", point, "a.npz") for point in FILE),
    ("predict", FILE[2], "job.json"),
]


def test_every_point_is_in_the_list():
    assert {point for _, point, _ in PLACES} == set(_io.POINTS)


def write_and_die(folder, writer, point, where):
    """Run in a process of its own."""
    with at(point, where, partial(os._exit, KILLED)):
        WRITERS[writer][0](folder)


def assert_clean(folder):
    left = [p.relative_to(folder) for p in folder.rglob(".*") if "lock" not in p.name]
    assert left == []


@pytest.mark.parametrize(("writer", "point", "where"), PLACES)
def test_a_process_killed_at_a_point_loses_nothing(tmp_path, writer, point, where):
    write, check = WRITERS[writer]
    write(tmp_path, seed=1)
    arguments = (tmp_path, writer, point, where)
    process = forking().Process(target=write_and_die, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == KILLED
    if writer in {"scores", "outputs", "rejector"}:  # old or new, at any time
        check(tmp_path)
    write(tmp_path)
    check(tmp_path)
    if writer in {"study", "predict", "rejector"}:  # folders of ours: tidied
        assert_clean(tmp_path)


FULL = [
    (*place, errno.ENOSPC)
    for place in PLACES
    if "after" not in place[1] and place[1] != DISCARD
]
# What cannot be written to at all, one notices when the first file is made.
FIRST = {FILE[0], FOLDER[0]}
READ_ONLY = [(*place, errno.EROFS) for place in PLACES if place[1] in FIRST]


@pytest.mark.parametrize(("writer", "point", "where", "error"), [*FULL, *READ_ONLY])
def test_a_disk_that_cannot_be_written_to_is_named(
    tmp_path, writer, point, where, error
):
    write, check = WRITERS[writer]
    write(tmp_path, seed=1)

    def refuse():
        raise OSError(error, os.strerror(error))

    why = rf"could not be written \({os.strerror(error)}\)\. (Free some|Choose another)"
    with at(point, where, refuse) as found, pytest.raises(OSError, match=why):
        write(tmp_path)
    assert len(found) == 1
    left = {p.name for p in tmp_path.rglob(".*") if "lock" not in p.name}
    assert left == set()
    if writer in {"scores", "outputs", "folder", "rejector"}:  # the old one is there
        check(tmp_path)
    write(tmp_path)
    check(tmp_path)
