"""Training and extraction, killed or without space at every point where they write.

What is killed is a process of its own. One folder is disturbed at all points of a file,
one after the other; then the same is done undisturbed, and must end like a calm run.
"""

import errno
import os
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.utils.data import DataLoader, TensorDataset

from openset import Outputs, _io, shards
from openset.cli._extract_network import Network
from openset.cli._extract_shards import Extract, input_shards
from openset.train import extract
from tests.killing import KILLED, at, forking
from tests.train.tiny import fit_tiny, rows_data, rows_network
from tests.unit.train.loop.test_resume import assert_same_run

FILE, END = _io.POINTS[:4], _io.POINTS[11:]
RENAMED = (_io.POINTS[7], _io.POINTS[9])


def train(folder):
    fit_tiny(rows_data(), out=folder / "run", checkpoint_seconds=0)


def check_training(folder, calm):
    assert_same_run(folder / "run", calm / "run")


def extract_rows(folder):
    torch.manual_seed(0)
    model = rows_network(3)
    data = TensorDataset(torch.randn(12, 4), torch.arange(12) % 3)
    names = [f"row {i}" for i in range(12)]
    loader = DataLoader(data, batch_size=5)
    extract(
        model, loader, out=folder / "test", groups="here", ids=names, resume=True,
        progress=False,
    )  # fmt: skip


def check_rows(folder, calm):
    one, other = (Outputs.load(place / "test") for place in (folder, calm))
    for name in ("logits", "features", "labels", "groups", "ids", "weight", "bias"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert not (folder / "test" / "progress.json").exists()


def extract_shards(folder):
    network = Network(
        name=str(folder / "run"), weights=None, classes=None, prompts=None, head=None,
        pooling=None, side=None, mean=(0,), std=(1,), batch_size=64, device="cpu",
        plugins=(),
    )  # fmt: skip
    found = input_shards(folder / "rows")
    done = shards.run(Extract(network), found, folder / "out", backend="sequential")
    if done.failed:
        raise OSError(done.failed[0]["error"])


def check_shards(folder, calm):
    one, other = (Outputs.load(place / "out" / "a.npz") for place in (folder, calm))
    assert_array_equal(one.logits, other.logits)


WRITERS = {
    "train": (train, check_training),
    "extract": (extract_rows, check_rows),
    "shards": (extract_shards, check_shards),
}

# The points of every file, or of the files of a folder.
PLACES = {
    ("train", "log.jsonl"): (*FILE, *END),
    ("train", "checkpoint.safetensors"): FILE,
    ("train", "protocol.json"): FILE,
    ("train", "outputs/"): FILE,
    ("train", "published/"): FILE,
    ("train", "scores/"): FILE,
    ("train", "trained.json"): FILE,
    **{("extract", f"{name}.npy"): END for name in ("logits", "features", "labels")},
    ("extract", "progress.json"): FILE,
    ("extract", "weight.npy"): FILE,
    ("extract", "meta.json"): FILE,
    ("extract", "test"): RENAMED,
    ("shards", "job.json"): FILE,
    ("shards", "begun"): FILE,
    ("shards", "a.npz"): FILE,
}


def place_of(path):
    """Return the file, or what stands for several that are written alike."""
    if path.parent.name in {"outputs", "published", "scores"}:
        return f"{path.parent.name}/"
    alike = {"bias.npy", "groups.npy", "ids.npy"}
    return "weight.npy" if path.name in alike else path.name


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Return a folder that nothing disturbed, and what was written in it."""
    folder = tmp_path_factory.mktemp("calm")
    written = set()
    for name, (write, _) in WRITERS.items():
        if name == "shards":
            (folder / "rows").mkdir()
            np.save(folder / "rows" / "a.npy", rows_data().inputs[:9])

        def look(point, path, name=name):
            written.add((name, place_of(path), point))

        _io.observe(look)
        write(folder)
        _io.observe(None)
    return folder, written


def test_the_list_has_every_point(calm):
    _, written = calm
    listed = {(*place, point) for place, points in PLACES.items() for point in points}
    assert listed == written


@pytest.fixture
def begun(calm, tmp_path):
    """Return a folder with what the writers of shards need."""
    for name in ("run", "rows"):
        shutil.copytree(calm[0] / name, tmp_path / "shards" / name)
    for name in ("train", "extract"):
        (tmp_path / name).mkdir()
    return tmp_path


def write_and_die(folder, writer, point, where):
    """Run in a process of its own."""
    torch.set_num_threads(1)  # as in the tests: sums in the same order
    with at(point, f"/{where}", partial(os._exit, KILLED)):
        WRITERS[writer][0](folder)


def assert_whole(folder, calm, writer):
    """Write undisturbed, and compare."""
    write, check = WRITERS[writer]
    write(folder)
    check(folder, calm)
    left = [path for path in folder.rglob(".*") if path.name != ".lock"]
    assert left == []


@pytest.mark.parametrize(("writer", "where"), PLACES)
def test_a_process_killed_at_a_point_loses_nothing(calm, begun, writer, where):
    folder = begun / writer
    for point in PLACES[writer, where]:
        arguments = (folder, writer, point, where)
        process = forking().Process(target=write_and_die, args=arguments)
        process.start()
        process.join()
        if point == RENAMED[1]:  # nothing is left to be done
            check_rows(folder, calm[0])
        assert process.exitcode == KILLED, point
    assert_whole(folder, calm[0], writer)


@pytest.mark.parametrize(("writer", "where"), PLACES)
def test_a_full_disk_is_named_and_loses_nothing(calm, begun, writer, where):
    folder = begun / writer

    def refuse():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    why = r"could not be written \(No space left on device\)\. Free some"
    for point in PLACES[writer, where]:
        if "after" in point:
            continue
        with at(point, f"/{where}", refuse) as found:
            with pytest.raises(OSError, match=why):
                WRITERS[writer][0](folder)
            assert len(found) == 1
    assert_whole(folder, calm[0], writer)
