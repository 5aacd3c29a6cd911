"""Files × damage × kill points: the old value or the new one, or an error that says so.

Every value that can be saved, as each kind of file it has.
"""

import io
import signal
import zipfile

import numpy as np
import pytest

from openset import ArtefactError, Outputs, Rejector, Scores, datasets, protocols, runs
from openset.detectors import KNN, Fitted
from openset.extract import LinearHead
from openset.metrics import Sketch
from openset.results import Results
from tests.killing import die_before_change, disk_full_at_change, forking
from tests.rejector.data import calibrated, drawn


def outputs(seed):
    return drawn(20, seed=seed)


def scores(seed):
    known = np.random.default_rng(seed).random(6)
    return Scores(labels=[0, 1, -1] * 2, predicted=[0, 1, 0] * 2, known=known)


def fitted(seed):
    return KNN(k=3).fit(drawn(40, seed=seed))


def data_set(seed):
    inputs = np.random.default_rng(seed).random((6, 4))
    return datasets.from_arrays(inputs, [0, 1, 2] * 2)


def sketch(seed):
    found = Sketch()
    found.update(scores(seed))
    return found


def head(seed):
    weight = np.random.default_rng(seed).normal(size=(3, 4))
    return LinearHead(weight=weight, bias=np.zeros(3), classes=tuple("abc"))


def results(seed):
    key = {"protocol": "p", "model": "m", "method": "", "detector": "msp"}
    row = {"metric": "auroc", "value": seed / 10, "n": 6}
    return runs.Cell(key=key, rows=[row]).results()


def protocol(seed):
    return protocols.outlier(4, 3, rng=seed)


def rejector(seed):
    return calibrated(fitted(seed))


def decided(made):
    return made.decide(drawn(30, seed=8)).known


TABLES = (".npz", ".csv", ".parquet")
# A value, its reader, what tells it from another one, and the kinds of its files.
VALUES = {
    "outputs": (outputs, Outputs.load, lambda one: one.logits, (".npz", "")),
    "scores": (scores, Scores.load, lambda one: one.known, TABLES),
    "fitted": (fitted, Fitted.load, lambda one: one.state["bank"], (".npz",)),
    "rejector": (rejector, Rejector.load, decided, ("",)),
    "data set": (data_set, datasets.load, lambda one: one.inputs, (".npz",)),
    "sketch": (sketch, Sketch.load, lambda one: one.bracket("auroc"), (".npz",)),
    "head": (head, LinearHead.load, lambda one: one.weight, (".npz",)),
    "results": (results, Results.load, lambda one: one.column("value"), (".csv",)),
    "protocol": (protocol, protocols.load, lambda one: one.hash, (".json",)),
}
FILES = [(name, kind) for name, (*_, kinds) in VALUES.items() for kind in kinds]
# What is in a table or a map, nobody counts or adds up.
PLAIN = {("scores", ".csv"), ("results", ".csv"), ("protocol", ".json")}
PLAIN |= {("outputs", "")}


@pytest.fixture(params=FILES, ids=str)
def kind(request):
    if ".parquet" in request.param:
        pytest.importorskip("pyarrow", reason="the extra tables")
    return request.param


def save(kind, seed, folder):
    name, ending = kind
    return VALUES[name][0](seed).save(folder / f"value{ending}")


def is_of(kind, seed, folder):
    """Whether what is there is the value of this seed."""
    make, load, content, _ = VALUES[kind[0]]
    found = load(folder / f"value{kind[1]}")
    return np.array_equal(content(found), content(make(seed)))


def save_and_die(kind, count, folder):
    die_before_change(count, folder)
    save(kind, 2, folder)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_killed_process_leaves_the_old_value_or_the_new(kind, is_new, tmp_path):
    processes, folders = [], []
    for count in range(1, 25):
        folders.append(tmp_path / str(count))
        folders[-1].mkdir()
        if not is_new:
            save(kind, 1, folders[-1])
        processes.append(
            forking().Process(target=save_and_die, args=(kind, count, folders[-1]))
        )
        processes[-1].start()
    for process in processes:
        process.join()
    codes = [process.exitcode for process in processes]
    assert set(codes) == {0, -signal.SIGKILL}, "killed at each of its changes"
    assert codes == sorted(codes)
    is_there = []
    for folder in folders:
        path = folder / f"value{kind[1]}"
        is_there.append(is_of(kind, 2, folder) if _is_whole(path) else False)
        if not is_new and _is_whole(path) and not is_there[-1]:
            assert is_of(kind, 1, folder)
        assert is_new or _is_whole(path) or kind == ("outputs", "")
        save(kind, 2, folder)
        assert is_of(kind, 2, folder)
        if kind[0] == "rejector":  # nothing is left of what was killed
            assert len(list(path.iterdir())) == 2
    assert is_there == sorted(is_there), "one step decides"


def _is_whole(path):
    """Whether there is a value, as its reader sees it: a rejector has a manifest."""
    names = {"manifest.json", "meta.json"}
    return path.is_file() or any((path / name).exists() for name in names)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_what_was_there_and_is_named(kind, is_new, tmp_path):
    count, is_reached = 1, True
    while is_reached:
        folder = tmp_path / str(count)
        folder.mkdir()
        if not is_new:
            save(kind, 1, folder)
        value = VALUES[kind[0]][0](2)
        told = ""
        with disk_full_at_change(count, folder) as disk:
            try:
                value.save(folder / f"value{kind[1]}")
            except OSError as error:
                told = f"{error} {error.__notes__}"
        is_reached = disk.is_reached
        if told:  # a folder that is there need not be made
            assert "No space left" in told
            assert "value" in told
            assert is_new or is_of(kind, 1, folder)
            assert not list(folder.rglob(".*")), "no temporary file stays"
        count += 1
    assert count > 3
    assert is_of(kind, 2, folder)


def damaged(content):
    """Return what may become of the bytes of a file."""
    n = len(content)
    yield from (content[: n * i // 16] for i in range(16))
    yield b"\0" * n
    yield content[n // 2 :]
    for at in np.linspace(0, n - 1, 60).astype(int):
        yield content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]


def test_a_damaged_file_is_refused_or_was_not_damaged(kind, tmp_path):
    if kind in PLAIN:
        pytest.skip("text, or a map: nothing tells what was written")
    path = save(kind, 1, tmp_path)
    files = [path] if path.is_file() else sorted(path.iterdir())
    for file in files:
        content = file.read_bytes()
        for other in damaged(content):
            file.write_bytes(other)
            try:
                is_same = is_of(kind, 1, tmp_path)
            except ArtefactError as error:
                is_same = path.name in str(error)
            assert is_same
        file.unlink()
        with pytest.raises((ArtefactError, FileNotFoundError)):
            is_of(kind, 1, tmp_path)
        file.write_bytes(content)


PICKLED = io.BytesIO()
np.savez(PICKLED, **dict.fromkeys(("logits", "known"), np.array([{}], object)))
PACKED = io.BytesIO()
with zipfile.ZipFile(PACKED, "w", zipfile.ZIP_LZMA) as lzma_archive:
    lzma_archive.writestr("logits.npy", b"")
OTHERS = {
    "empty": b"",
    "text": b"label\n1\n",
    "a pickle": b"\x80\x04}.",
    "one array": b"\x93NUMPY\x01\x00v\x00{}",
    "objects": PICKLED.getvalue(),
    "another compression": PACKED.getvalue(),
    "parquet": b"PAR1",
    "bytes": bytes(range(256)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_file_of_another_kind_is_refused(kind, other, tmp_path):
    path = tmp_path / f"value{kind[1]}"
    load = VALUES[kind[0]][1]
    with pytest.raises(FileNotFoundError, match="value"):
        load(path)
    is_bare = kind[0] == "results" and other in {"empty", "parquet"}  # without rows
    if kind[1] and not is_bare:
        path.write_bytes(OTHERS[other])
        with pytest.raises(ArtefactError, match="value"):
            load(path)


def test_values_are_told_apart(tmp_path):
    for kind in FILES:
        folder = tmp_path / str(kind)
        folder.mkdir()
        save(kind, 1, folder)
        assert is_of(kind, 1, folder)
        assert not is_of(kind, 2, folder)
        assert [path.name for path in folder.iterdir()] == [f"value{kind[1]}"]
