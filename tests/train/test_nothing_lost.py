"""Training, killed or without space at every point where they write.

What is killed is a process of its own. One folder is disturbed at all points of a file,
one after the other; then the same is done undisturbed, and must end like a calm run.
"""

import errno
import os
from functools import partial

import pytest
import torch

from openset import _io
from tests.killing import KILLED, at, forking
from tests.train.test_run import assert_same_run
from tests.train.tiny import fit_tiny, rows_data

FILE, END = _io.POINTS[:4], _io.POINTS[11:]


def train(folder):
    fit_tiny(rows_data(), out=folder / "run")


def check_training(folder, calm):
    assert_same_run(folder / "run", calm / "run")


WRITERS = {
    "train": (train, check_training),
}

# The points of every file, or of the files of a folder.
PLACES = {
    ("train", "log.jsonl"): (*FILE, *END),
    ("train", "checkpoint.pt"): FILE,
    ("train", "protocol.json"): FILE,
    ("train", "outputs/"): FILE,
    ("train", "published/"): FILE,
    ("train", "scores/"): FILE,
    ("train", "trained.json"): FILE,
}


def place_of(path):
    """Return the file, or what stands for several that are written alike."""
    if path.parent.name in {"outputs", "published", "scores"}:
        return f"{path.parent.name}/"
    return path.name


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Return a folder that nothing disturbed, and what was written in it."""
    folder = tmp_path_factory.mktemp("calm")
    written = set()
    for name, (write, _) in WRITERS.items():

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
def begun(tmp_path):
    """Return a folder for each writer."""
    for name in WRITERS:
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
