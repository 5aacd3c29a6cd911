"""Runs that are killed go on as if nothing had been; damaged files are named."""

import itertools
import json
import os
import shutil
import signal
import sys
from unittest.mock import Mock

import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors.torch import load_file

from openset._types import ArtefactError
from openset.train import Trained, run
from tests.killing import forking
from tests.train.tiny import fit_tiny, image_data

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="needs SIGKILL and forks"
)


EPOCHS = 8


CHECKPOINT = "checkpoint.pt"


TIMES = ("seconds", "samples_per_second")


def train(folder, epochs=EPOCHS):
    """Train with all that changes: dropout, RandAugment, mixtures, turns, momentum."""
    of_recipe = {"recipe": "ceplus", "auxiliary": "rotation", "clean": 0.4, "batch": 5}
    how = {"method": "proser", "network": "osrci", "epochs": epochs, **of_recipe}
    return fit_tiny(image_data(), out=folder, **how)


def fingerprint(folder):
    """Return the weights and optimisers of a run, and its log without the clock."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    plain = [{k: v for k, v in line.items() if k not in TIMES} for line in log]
    return load_file(folder / "weights.safetensors"), plain


def assert_same_run(one, other):
    (tensors, log), (others, other_log) = fingerprint(one), fingerprint(other)
    assert log == other_log
    torch.testing.assert_close(tensors, others, rtol=0, atol=0)
    ours, theirs = Trained.load(one), Trained.load(other)
    for part in ours.outputs:
        assert_array_equal(ours.outputs[part].logits, theirs.outputs[part].logits)


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def in_a_step(count):
    """Die in the middle of an epoch."""
    step, calls = run.start_step, itertools.count(1)

    def patched(*arguments):
        return die() if next(calls) == count else step(*arguments)

    run.start_step = patched


def in_a_checkpoint(count):
    """Die with half a checkpoint written."""
    save, calls = torch.save, itertools.count(1)

    def patched(state, stream):
        if next(calls) < count:
            return save(state, stream)
        stream.write(b"half a file")
        stream.flush()
        return die()

    torch.save = patched


def in_a_line(count):
    """Die with half a line of the log written."""
    write = run.Run._write_line

    def patched(self, epoch, *arguments):
        if epoch < count:
            return write(self, epoch, *arguments)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as stream:
            stream.write('{"epoch": 4, "lo')
        return die()

    run.Run._write_line = patched


def between_line_and_checkpoint(count):
    """Die when the log knows more than the checkpoint."""
    save = run.Run.save
    run.Run.save = lambda self: die() if self.done >= count else save(self)


def before_the_summary(_):
    """Die when all is trained and nothing is summed up."""
    Trained.save = die


MOMENTS = [
    (in_a_step, 2),
    (in_a_checkpoint, 1),
    (in_a_step, 3),
    (in_a_step, 5),
    (in_a_step, 9),
    (in_a_line, 4),
    (between_line_and_checkpoint, 5),
    (in_a_checkpoint, 3),
    (before_the_summary, 0),
]


@pytest.fixture(autouse=True)
def a_checkpoint_each_epoch(monkeypatch):
    """Do not wait for half a minute."""
    monkeypatch.setattr(run, "_EVERY", 0.0)


def train_and_die(folder, moment, count):
    """Run in a process of its own."""
    run._EVERY = 0.0
    torch.set_num_threads(1)  # as in the tests: sums in the same order
    moment(count)
    train(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the folder of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train(folder)
    return folder


def killed(folder, moment, count):
    process = forking().Process(target=train_and_die, args=(folder, moment, count))
    process.start()
    process.join()
    return process.exitcode


def test_a_run_killed_at_every_bad_moment_ends_as_if_nothing_had_been(
    undisturbed, tmp_path
):
    for moment, count in MOMENTS:
        assert killed(tmp_path, moment, count) == -signal.SIGKILL
    assert not (tmp_path / "trained.json").exists()
    train(tmp_path)
    assert_same_run(tmp_path, undisturbed)
    assert not list(tmp_path.glob(f".{CHECKPOINT}.*"))


USUAL = {"epochs": 4, "momentum": 0.9}


class Stopped(Exception):  # noqa: N818  # no error
    """A run stopped on purpose."""


def stopped(monkeypatch, folder, after, **changes):
    """Train, and stop after so many epochs."""
    epoch = run.Run._epoch

    def patched(self, number):
        if number == after:
            raise Stopped
        return epoch(self, number)

    usual = USUAL | {"out": folder}
    with monkeypatch.context() as patch:
        patch.setattr(run.Run, "_epoch", patched)
        with pytest.raises(Stopped):
            fit_tiny(**(usual | changes))
    return lambda: fit_tiny(**(usual | changes))


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_optimisers_go_on_with_their_memory(monkeypatch, tmp_path, optimiser):
    changes = {"optimiser": optimiser, "lr": 0.01, "method": "arpl"}
    go_on = stopped(monkeypatch, tmp_path / "a", 2, **changes)
    counted = Mock(side_effect=run.start_step)
    monkeypatch.setattr(run, "start_step", counted)
    go_on()
    assert counted.call_count == 1 + 2 * 3  # to build, two epochs of three batches
    fit_tiny(out=tmp_path / "b", **USUAL, **changes)
    assert_same_run(tmp_path / "a", tmp_path / "b")


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """Return a folder after two of four epochs, and how to go on with it."""
    return tmp_path, stopped(monkeypatch, tmp_path, 2)


@pytest.mark.parametrize("left", [0, 100, -1])
def test_a_checkpoint_cut_off_is_named(interrupted, left):
    folder, go_on = interrupted
    path = folder / CHECKPOINT
    path.write_bytes(path.read_bytes()[:left])
    said = rf"(?s){CHECKPOINT} must be undamaged.*Delete it to"
    with pytest.raises(ArtefactError, match=said):
        go_on()
    path.unlink()
    assert len(go_on().log) == 4


@pytest.mark.parametrize("change", [{"seed": 1}, {"epochs": 5}, {"method": "gcpl"}])
def test_a_checkpoint_of_another_run_is_refused(interrupted, change):
    folder, _ = interrupted
    with pytest.raises(ValueError, match=r"out must be an empty folder .*differs in"):
        fit_tiny(**(USUAL | {"out": folder} | change))


def test_a_folder_can_be_moved(interrupted, tmp_path_factory):
    folder, go_on = interrupted
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "run"
    shutil.copytree(folder, elsewhere)
    before = (elsewhere / "log.jsonl").read_text()  # with times of the first two epochs
    fit_tiny(out=elsewhere, **USUAL)
    assert (elsewhere / "log.jsonl").read_text().startswith(before)
    go_on()
    assert_same_run(elsewhere, folder)
