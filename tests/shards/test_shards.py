"""Folders of shards: the same as all samples at once; nothing lost, nothing twice."""

import os
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import Rejector, Scores, detectors, shards
from tests.rejector.data import calibrated, drawn
from tests.shards.jobs import Fatal
from tests.stores import files, upload, web_server

pa = pytest.importorskip("pyarrow", reason="Parquet is optional")
pq = pytest.importorskip("pyarrow.parquet", reason="Parquet is optional")
fsspec = pytest.importorskip("fsspec", reason="shards are found by it")

IDS = np.array([f"{'long-' * (i > 60)}{i}" for i in range(250)])
CUTS = [0, 100, 130, 250]


def whole(bad=()):
    """Return all samples; the logits of some of them are NaN."""
    found = drawn(250, seed=5)
    logits = np.array(found.logits)
    logits[list(bad), 1] = np.nan
    return replace(found, logits=logits, ids=IDS, invalid="keep")


def save(outputs, path):
    """Write a shard of the kind of its ending."""
    if path.suffix != ".parquet":
        outputs.save(path)
        return
    columns = {n: getattr(outputs, n) for n in ("logits", "features", "labels", "ids")}
    rows = {n: list(c) if c.ndim > 1 else c for n, c in columns.items()}
    pq.write_table(pa.table(rows), path)


def place(path, bad=()):
    """Write one shard of each kind, and what is no shard."""
    path.mkdir()
    for (a, b), name in zip(pairwise(CUTS), ["a.npz", "b", "c.parquet"], strict=True):
        save(whole(bad).take(slice(a, b)), path / name)
    (path / "README.txt").write_text("no shard")
    (path / ".c.npz").write_text("half written")
    return path


@pytest.fixture
def folder(tmp_path):
    """Return a folder with one shard of each kind."""
    return place(tmp_path / "shards")


@pytest.fixture(scope="module")
def rejector(tmp_path_factory):
    """Return the folder of a rejector."""
    made = calibrated(detectors.KNN(k=3).fit(drawn(300, seed=1)))
    return made.save(tmp_path_factory.mktemp("saved") / "rejector")


run = partial(shards.run, backend="sequential")


def columns(out, kind):
    """Return the columns of all result files, joined."""
    tables = []
    for file in sorted(out.glob(f"*.{kind}")):
        table = np.load(file) if kind == "npz" else pq.read_table(file).to_pydict()
        tables.append({n: np.asarray(table[n]) for n in table if n != "set"})
    return {n: np.concatenate([one[n] for one in tables]) for n in tables[0]}


@pytest.mark.parametrize("bad", [(), (55, 104, 249)])
@pytest.mark.parametrize(("kind", "rows"), [("npz", 29), ("parquet", 7)])
def test_decisions_are_those_of_all_samples_at_once(
    rejector, tmp_path, kind, rows, bad
):
    job = shards.Predict(rejector, format=kind, rows=rows, invalid="reject")
    done = run(job, place(tmp_path / "in", bad), tmp_path / "out")
    assert (done.n_shards, done.n_run, done.failed) == (3, 3, {})
    assert done.invalid == (dict.fromkeys("abc", 1) if bad else {})
    opened, outputs = Rejector.load(rejector), whole(bad)
    decisions = opened.decide(outputs, invalid="reject")
    wanted, found = opened.columns(decisions, outputs), columns(tmp_path / "out", kind)
    assert found.keys() == wanted.keys()
    for name in ("decision", "name", "predicted", "invalid", "id"):
        assert_array_equal(found[name], wanted[name])
    # Matrix products of other sizes may round the last digit in another way.
    assert_allclose(found["known"], wanted["known"], rtol=1e-13)
    assert_allclose(found["margin"], wanted["margin"], atol=1e-13)
    names = {"job.json", *(f"{name}.{kind}" for name in "abc")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_scores_are_those_of_all_samples_at_once(folder, tmp_path, kind):
    train = drawn(300, seed=1)
    fitted = {"knn": detectors.KNN(k=3).fit(train), "msp": detectors.MSP().fit(train)}
    saved = tuple((n, one.save(tmp_path / f"{n}.npz")) for n, one in fitted.items())
    run(shards.Score(saved, format=kind, rows=50), folder, tmp_path / "out")
    for name, wanted in detectors.score_all(fitted, whole()).items():
        paths = sorted((tmp_path / "out" / name).iterdir())
        found = Scores.concat([Scores.load(path) for path in paths])
        assert_array_equal(found.known, wanted.known)
        assert_array_equal(found.labels, wanted.labels)
        assert_array_equal(found.ids, IDS)


def test_what_is_there_is_not_done_again_unless_its_shard_has_changed(
    rejector, folder, tmp_path
):
    job, out = shards.Predict(rejector, format="npz"), tmp_path / "out"
    found = shards.find(folder)
    run(job, {name: found[name] for name in "ab"}, out)
    before = (out / "a.npz").stat().st_mtime_ns
    (out / "b.npz").unlink()
    assert run(job, found, out).n_run == 2
    assert (out / "a.npz").stat().st_mtime_ns == before
    assert str(run(job, found, out)) == f"3 of 3 shards in {out} (0 run now)"
    time = (out / "b.npz").stat().st_mtime + 1
    drawn(30, seed=9).save(folder / "b")
    os.utime(folder / "b", (time, time))
    assert run(job, folder, out).n_run == 1
    assert_array_equal(
        np.load(out / "b.npz")["decision"],
        Rejector.load(rejector).predict(drawn(30, seed=9)),
    )


def test_results_of_another_job_or_beside_the_shards_are_refused(
    rejector, folder, tmp_path
):
    run(shards.Predict(rejector, format="npz"), folder, tmp_path / "out")
    other = shards.Predict(rejector, format="parquet")
    with pytest.raises(ValueError, match=r"out must be new, .* with another job"):
        run(other, folder, tmp_path / "out")
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match="out must be another folder than that of"):
        run(other, folder, folder / "." / "")
    assert sorted(folder.iterdir()) == before
    with pytest.raises(ValueError, match="invalid must be one of 'error', 'reject'"):
        shards.Predict(rejector, invalid="keep")


def test_a_bad_shard_is_named_and_stops_nobody(rejector, tmp_path):
    folder = place(tmp_path / "in", bad=[101])
    (folder / "c.parquet").write_bytes(b"x")
    job = shards.Predict(rejector, format="npz")
    done = run(job, folder, tmp_path / "out")
    assert (done.n_run, done.failed.keys()) == (1, {"b", "c"})
    assert "first in row 1" in done.failed["b"]
    assert "c.parquet" in done.failed["c"]
    assert "2 failed" in str(done)
    save(whole().take(slice(130, 250)), folder / "c.parquet")
    job = shards.Predict(rejector, format="npz", invalid="reject")  # the same job
    done = run(job, folder, tmp_path / "out")
    assert (done.n_run, done.failed, done.invalid) == (2, {}, {"b": 1})


def test_a_killed_worker_loses_nothing(rejector, folder, tmp_path):
    mark = tmp_path / "mark"
    done = shards.run(Fatal(rejector, mark=str(mark)), folder, tmp_path / "out", jobs=2)
    assert mark.exists()
    assert (done.n_run, done.failed) == (3, {})
    found = columns(tmp_path / "out", "parquet")["decision"]
    assert_array_equal(found, Rejector.load(rejector).predict(whole()))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0, 2.0], None], "must have the same shape"),
        ([[], []], r"got shape \(2, 0\)"),
        ([], "an integer >= 1"),
    ],
)
def test_parquet_that_holds_no_matrix_is_refused(tmp_path, rows, words):
    column = pa.array(rows, pa.list_(pa.float64()))
    pq.write_table(pa.table({"logits": column}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=words):
        list(shards.read(tmp_path / "a.parquet", rows=10))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "got none"),
        (["a.npz", "B.NPZ"], "B.NPZ beside them"),
        (["a.npz", "sub/c.parquet"], "sub beside them"),
        (["a.npz", "a.parquet"], "a.* beside them"),
        (["a.npz", "a/logits.npy"], "a.* beside them"),
    ],
)
def test_a_folder_in_which_shards_would_be_left_out_is_refused(tmp_path, names, words):
    for name in (*names, "_SUCCESS"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=words):
        shards.find(tmp_path)
    assert shards.is_folder_of_shards("s3://bucket/shards")


def test_a_store_gives_and_gets_the_same_files(rejector, folder, tmp_path):
    bucket = f"memory://{tmp_path.name}"
    upload(folder, f"{bucket}/shards")
    job = shards.Predict(rejector, format="npz")
    run(job, folder, tmp_path / "out")
    done = run(job, f"{bucket}/shards", f"{bucket}/out")
    assert (done.folder, done.n_run) == (f"{bucket}/out", 3)
    found = files(f"{bucket}/out")
    local = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == local
    fsspec.url_to_fs(bucket)[0].rm(f"{bucket}/out/b.npz")
    fsspec.url_to_fs(bucket)[0].pipe_file(f"{bucket}/shards/c.parquet", b"damaged")
    assert run(job, f"{bucket}/shards", f"{bucket}/out").n_run == 1
    assert files(f"{bucket}/out") == found
    with web_server(folder) as address:
        run(job, address, tmp_path / "far")
    assert {p.name: p.read_bytes() for p in (tmp_path / "far").iterdir()} == local
