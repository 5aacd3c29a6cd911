"""Folders of shards: the same as all samples at once; nothing lost, nothing twice."""

import errno
import json
import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import (
    CalibrationWarning,
    Outputs,
    Rejector,
    _backends,
    detectors,
    shards,
)
from openset._types import ArtefactError
from openset.outputs import replaced
from openset.scores import Scores
from openset.shards._stores import Folder
from tests.rejector.data import drawn
from tests.unit.shards.fatal import Fatal

pq = pytest.importorskip("pyarrow.parquet", reason="Parquet is optional")
pa = pytest.importorskip("pyarrow")

WHOLE = drawn(250, seed=5)
CUTS = [0, 100, 130, 250]


@pytest.fixture(scope="module")
def rejector(tmp_path_factory):
    fitted = detectors.KNN(k=3).fit(drawn(300, seed=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        made = Rejector.calibrate(
            fitted, known=drawn(200, seed=2), surrogate=drawn(200, seed=3, unknown=True)
        )
    return made.save(tmp_path_factory.mktemp("saved") / "rejector")


def parts():
    return [WHOLE.take(slice(a, b)) for a, b in pairwise(CUTS)]


def to_parquet(outputs, path):
    columns = {
        "logits": list(np.asarray(outputs.logits)),
        "features": list(np.asarray(outputs.features)),
        "labels": np.asarray(outputs.labels),
    }
    columns = {name: one for name, one in columns.items() if one is not None}
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with one shard of each kind."""
    path = tmp_path / "shards"
    path.mkdir()
    first, second, third = parts()
    first.save(path / "a.npz")
    second.save(path / "b")
    to_parquet(third, path / "c.parquet")
    (path / "README.txt").write_text("no shard")
    return path


def columns(out, format_):
    files = sorted(out.glob(f"*.{format_}"))
    if format_ == "npz":
        tables = [dict(np.load(file)) for file in files]
    else:
        tables = [
            {k: np.asarray(v) for k, v in pq.read_table(file).to_pydict().items()}
            for file in files
        ]
    names = tables[0]
    return {name: np.concatenate([t[name] for t in tables]) for name in names}


@pytest.mark.parametrize("format_", ["parquet", "npz"])
@pytest.mark.parametrize("rows", [7, 1000])
def test_decisions_are_those_of_all_samples_at_once(
    rejector, folder, tmp_path, format_, rows
):
    job = shards.Predict(rejector, format=format_, rows=rows)
    out = tmp_path / "out"
    done = shards.run(job, shards.find(folder, caller="x"), out, backend="sequential")
    assert (done.n_shards, done.n_run, done.failed) == (3, 3, ())
    opened = Rejector.load(rejector)
    expected = opened.decide(WHOLE)
    found = columns(out, format_)
    assert_array_equal(found["decision"], expected.labels)
    # Matrix products of other sizes may round the last digit in another way.
    assert_allclose(found["known"], expected.known, rtol=1e-13)
    assert_array_equal(found["predicted"], expected.predicted)
    assert_allclose(found["margin"], opened.margins(expected), atol=1e-13)
    assert_array_equal(found["decision"] != -1, found["margin"] >= 0)
    names = {"job.json", ".lock", *(f"{name}.{format_}" for name in "abc")}
    assert {path.name for path in out.iterdir()} == names


@pytest.mark.parametrize("format_", ["parquet", "npz"])
def test_sets_are_those_of_all_samples_at_once(folder, tmp_path, format_):
    made = Rejector.calibrate(
        detectors.Energy().fit(None),
        known=drawn(200, seed=2),
        surrogate=drawn(200, seed=3, unknown=True),
        sets=0.97,
    )
    job = shards.Predict(made.save(tmp_path / "sets"), format=format_, rows=33)
    out = tmp_path / "out"
    shards.run(job, shards.find(folder, caller="x"), out, backend="sequential")
    if format_ == "npz":
        found = np.flatnonzero(columns(out, "npz")["set"]).tolist()
        assert found == np.flatnonzero(made.decide(WHOLE).sets).tolist()
        return
    files = sorted(out.glob("*.parquet"))
    lists = [one for f in files for one in pq.read_table(f)["set"].to_pylist()]
    assert lists == made.decide(WHOLE).set_classes
    assert {len(one) for one in lists} >= {0, 1, 2}


def test_scores_are_those_of_all_samples_at_once(folder, tmp_path):
    train = drawn(300, seed=1)
    fitted = {"knn": detectors.KNN(k=3).fit(train), "msp": detectors.MSP().fit(None)}
    files = tuple(
        (name, one.save(tmp_path / f"{name}.npz")) for name, one in fitted.items()
    )
    job = shards.Score(files, format="npz", rows=50)
    out = tmp_path / "out"
    shards.run(job, shards.find(folder, caller="x"), out, backend="sequential")
    for name, expected in detectors.score_all(fitted, WHOLE).items():
        paths = sorted((out / name).iterdir())
        found = Scores.concat([Scores.load(path) for path in paths])
        assert_array_equal(found.known, expected.known)
        assert_array_equal(found.labels, expected.labels)


@pytest.mark.parametrize("format_", ["npz", "parquet"])
def test_scores_have_the_ids_of_their_shard(tmp_path, format_):
    ids = [f"{'long-' * (i > 60)}{i}" for i in range(len(WHOLE))]
    (tmp_path / "in").mkdir()
    replaced(WHOLE, ids=np.array(ids)).save(tmp_path / "in" / "one.npz")
    fitted = detectors.MSP().fit().save(tmp_path / "msp.npz")
    job = shards.Score((("msp", fitted),), format=format_, rows=50)
    shards.run(job, tmp_path / "in", tmp_path / "out", backend="sequential")
    found = Scores.load(tmp_path / "out" / "msp" / f"one.{format_}")
    assert found.ids.tolist() == ids


def test_scores_refuse_classes_in_another_order(tmp_path):
    def named(outputs, classes):
        logits, labels = np.asarray(outputs.logits), np.asarray(outputs.labels)
        return Outputs(logits=logits, labels=labels, classes=classes)

    classes = [f"class {i}" for i in range(WHOLE.n_classes)]
    fitted = detectors.MSP().fit(named(WHOLE, classes)).save(tmp_path / "msp.npz")
    (tmp_path / "in").mkdir()
    named(WHOLE, classes).save(tmp_path / "in" / "same.npz")
    named(WHOLE, classes[::-1]).save(tmp_path / "in" / "turned.npz")
    job = shards.Score((("msp", fitted),), format="npz")
    done = shards.run(job, tmp_path / "in", tmp_path / "out", backend="sequential")
    (failed,) = done.failed
    assert failed["shard"] == "turned"
    assert "classes" in failed["error"]
    assert len(Scores.load(tmp_path / "out" / "msp" / "same.npz")) == len(WHOLE)


def test_what_is_there_is_not_done_again(rejector, folder, tmp_path):
    job = shards.Predict(rejector, format="npz")
    found = shards.find(folder, caller="x")
    out = tmp_path / "out"
    shards.run(job, found[:2], out, backend="sequential")
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.npz")}
    (out / "b.npz").unlink()
    (out / ".a.npz.half").touch()  # of a run that was killed
    assert shards.run(job, found, out, backend="sequential").n_run == 2
    assert (out / "a.npz").stat().st_mtime_ns == before[out / "a.npz"]
    assert not (out / ".a.npz.half").exists()


def test_another_job_or_other_shards_are_not_mixed_in(rejector, folder, tmp_path):
    out = tmp_path / "out"
    found = shards.find(folder, caller="x")
    job = shards.Predict(rejector, format="npz")
    shards.run(job, found, out, backend="sequential")
    other = shards.Predict(rejector, format="parquet")
    with pytest.raises(ValueError, match=r"--out must be new, .* with another job"):
        shards.run(other, found, out, backend="sequential")
    WHOLE.save(folder / "a.npz")
    with pytest.raises(ValueError, match=r"results of another a\. Choose another"):
        shards.run(job, found, out, backend="sequential")


def test_results_are_not_written_next_to_the_shards(rejector, folder):
    before = sorted(folder.iterdir())
    job = shards.Predict(rejector, format="npz")
    with pytest.raises(ValueError, match="--out must be another folder than that of"):
        shards.run(job, folder, folder / "." / "", backend="sequential")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", ["a.npz", "b", "c.parquet"])
def test_a_shard_of_the_same_size_with_other_samples_is_noticed(
    rejector, folder, tmp_path, name
):
    job, out = shards.Predict(rejector, format="npz"), tmp_path / "out"
    shards.run(job, folder, out, backend="sequential")
    path = folder / name
    for file in path.rglob("*.npy") if path.is_dir() else [path]:
        file.touch()  # the time alone says nothing: files are copied
    assert shards.run(job, folder, out, backend="sequential").n_run == 0
    size = path.stat().st_size
    i = ["a.npz", "b", "c.parquet"].index(name)
    other = drawn(CUTS[i + 1] - CUTS[i], seed=9)
    to_parquet(other, path) if i == 2 else other.save(path)
    assert name != "a.npz" or path.stat().st_size == size
    with pytest.raises(ValueError, match=f"results of another {path.stem}"):
        shards.run(job, folder, out, backend="sequential")


def test_a_folder_of_arrays_that_was_replaced_is_still_a_shard(folder):
    parts()[1].save(folder / "b")  # its arrays have new names now
    assert [shard.name for shard in shards.find(folder)] == ["a", "b", "c"]
    assert not shards.is_folder_of_shards(folder / "b")
    assert shards.is_folder_of_shards(folder)


def test_one_number_in_a_large_shard_is_noticed(tmp_path):
    logits = np.zeros((20_000, 4))
    np.savez(tmp_path / "a.npz", logits=logits)
    (shard,) = shards.find(tmp_path)
    before = shard.content
    logits[7_777, 1] = 1  # the end of the file has a checksum of the array
    np.savez(tmp_path / "a.npz", logits=logits)
    size = before.partition(" ")[0]
    assert shard.content != before
    assert shard.content.startswith(f"{size} bytes ")


def test_a_bad_shard_is_named_and_stops_nobody(rejector, folder, tmp_path):
    (folder / "b" / "logits.npy").write_bytes(b"x")
    out = tmp_path / "out"
    job = shards.Predict(rejector, format="npz")
    found = shards.find(folder, caller="x")
    done = shards.run(job, found, out, backend="sequential")
    assert done.n_run == 2
    (failure,) = done.failed
    assert failure["shard"] == "b"
    assert "logits.npy is damaged" in failure["error"]
    (record,) = out.glob("failed/*/b.json")
    assert json.loads(record.read_text()) == failure
    second = parts()[1]
    second.save(folder / "b")
    assert shards.run(job, found, out, backend="sequential").failed == ()
    assert not (out / "failed").exists()


def test_a_cluster_that_is_not_there_leaves_no_folder(rejector, folder, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="address must be"):
        shards.run(
            shards.Predict(rejector), folder, out, backend="sequential", address="here"
        )
    assert not out.exists()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0, 2.0], [1.0]], "different lengths"),
        ([[1.0, 2.0], [1.0], [1.0, 2.0, 3.0], [1.0, 2.0]], "different lengths"),
        ([[1.0, 2.0], None], "different lengths, or none"),
        ([[], []], "different lengths, or none"),
        ([1.0, 2.0], "a column of double"),
    ],
)
def test_lists_of_different_lengths_are_refused(tmp_path, rows, words):
    column = pa.array(rows, pa.list_(pa.float64()) if rows[0] == [] else None)
    pq.write_table(pa.table({"logits": column}), tmp_path / "a.parquet")
    (shard,) = shards.find(tmp_path, caller="x")
    with pytest.raises(ValueError, match="logits must be lists of one length") as said:
        list(shards.read(shard, rows=10))
    assert words in str(said.value)


def test_two_shards_of_one_name_are_refused(tmp_path):
    WHOLE.save(tmp_path / "a.npz")
    WHOLE.save(tmp_path / "a")
    with pytest.raises(ValueError, match="several called a"):
        shards.find(tmp_path, caller="x")
    with pytest.raises(
        FileNotFoundError, match=r"x: .* must be a file or folder of outputs"
    ):
        shards.find(tmp_path / "a", caller="x")


def test_a_killed_worker_loses_nothing_and_writes_nothing_twice(
    rejector, folder, tmp_path
):
    mark = tmp_path / "mark"
    job = Fatal(rejector, rows=20, mark=str(mark))
    found = shards.find(folder, caller="x")
    done = shards.run(job, found, tmp_path / "out", jobs=2)
    assert mark.exists()
    assert (done.n_run, done.failed) == (3, ())
    found = columns(tmp_path / "out", "parquet")["decision"]
    assert_array_equal(found, Rejector.load(rejector).decide(WHOLE).labels)


def test_shards_that_kill_every_worker_are_named(
    rejector, folder, tmp_path, monkeypatch
):
    class Broken:
        def items_per_call(self, n):
            return 2

        def __call__(self, function, calls):
            for job, group, place in calls:
                function(job, [one for one in group if one.name != "b"], place)
            raise BrokenPipeError

    monkeypatch.setattr(_backends, "pool", lambda *_, **__: Broken())
    job = shards.Predict(rejector, format="npz")
    found = shards.find(folder, caller="x")
    with pytest.raises(RuntimeError, match=r"died 3 times .* with 1 shards left \(b\)"):
        shards.run(job, found, tmp_path / "out")
    assert {path.name for path in tmp_path.glob("out/*.npz")} == {"a.npz", "c.npz"}


@pytest.mark.parametrize("missed", ["b.pq", "B.NPZ", "sub/c.parquet", "sub/x.npy"])
def test_files_that_look_like_shards_are_not_left_out_in_silence(tmp_path, missed):
    (tmp_path / "a.npz").touch()
    (tmp_path / "_SUCCESS").touch()
    assert [one.name for one in shards.find(tmp_path)] == ["a"]
    (tmp_path / missed).parent.mkdir(exist_ok=True)
    (tmp_path / missed).touch()
    with pytest.raises(ValueError, match=f"got {missed.split('/')[0]} beside them"):
        shards.find(tmp_path)


def test_parquet_without_samples_or_with_damage_is_refused(tmp_path):
    table = pa.table({"logits": list(np.asarray(WHOLE.logits))})
    path = tmp_path / "a.parquet"
    shard = shards.Shard("a", path)
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(ValueError, match=r"at least one, got none.*\nin .*a\.parquet"):
        list(shards.read(shard, rows=10))
    options = {"compression": "none", "use_dictionary": False}
    pq.write_table(table, path, write_page_checksum=True, **options)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ArtefactError, match=r"a\.parquet cannot be read, or is damag"):
        list(shards.read(shard, rows=10))


def test_a_full_disk_is_named_even_if_failures_cannot_be_recorded(
    rejector, folder, tmp_path, monkeypatch
):
    write = Folder.write

    def full(self, name, content):
        if name.endswith(".json") and name.startswith("failed/"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, name, content)

    monkeypatch.setattr(Folder, "write", full)
    (folder / "a.npz").write_bytes(b"no outputs")
    job = shards.Predict(str(rejector))
    with pytest.raises(OSError, match=r"predict: .*a\.npz.*same command continues"):
        shards.run(job, folder, tmp_path / "out", backend="sequential")
