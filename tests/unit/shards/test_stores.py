"""Shards and results in object stores: the same as in folders, whole or not there.

Stores: fsspec's own, in memory; a web server, to read from; and S3, by moto's server on
this machine, where it is installed (it holds python-dateutil back, so it is no
dependency of ours).
"""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import MissingExtraError, Outputs, shards
from openset.cli import app
from openset.shards._stores import Entry, Folder, ObjectStore, store
from tests.stores import files, upload, web_server
from tests.unit.shards.test_shards import folder, rejector  # noqa: F401  # fixtures

fsspec = pytest.importorskip("fsspec", reason="object stores are optional")


@pytest.fixture
def web(folder):  # noqa: F811
    """Return the URL of the folder, on a web server."""
    with web_server(folder) as address:
        yield address


def run(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments), "--backend", "sequential"])
    assert done.exit_code == 0, done.output
    return done.output


def test_predictions_in_a_store_are_those_of_files(rejector, folder, tmp_path, bucket):  # noqa: F811
    url = bucket
    upload(folder, f"{url}/shards")
    run("predict", rejector, f"{url}/shards", "--out", f"{url}/out", "--format", "npz")
    run("predict", rejector, folder, "--out", tmp_path / "out", "--format", "npz")
    found = files(f"{url}/out")
    names = ["a.npz", "b.npz", "c.npz"]
    assert sorted(found) == [*names, "job.json"]
    for name in names:
        assert found[name] == (tmp_path / "out" / name).read_bytes()
    again = ["predict", rejector, f"{url}/shards", "--out", f"{url}/out"]
    assert "(0 run now" in run(*again, "--format", "npz")
    fsspec.url_to_fs(url)[0].rm(f"{url}/out/b.npz")
    assert "(1 run now" in run(*again, "--format", "npz")
    assert files(f"{url}/out") == found
    done = CliRunner().invoke(app, [*map(str, again), "--format", "parquet"])
    assert "--out must be new, or have results of the same" in str(done.exception)


def test_scores_in_a_store_are_those_in_a_folder(folder, tmp_path, memory):  # noqa: F811
    upload(folder, f"{memory}/shards")
    common = ("score", "-d", "msp", "-d", "energy", "--format", "npz")
    run(*common, f"{memory}/shards", "--out", f"{memory}/out")
    run(*common, folder, "--out", tmp_path)
    for name in ("scores-msp/a.npz", "scores-energy/c.npz"):
        assert files(f"{memory}/out")[name] == (tmp_path / name).read_bytes()


def test_outputs_are_extracted_from_a_store(tmp_path, memory):
    pytest.importorskip("torch", reason="trains a network")
    from tests.train import tiny  # noqa: PLC0415  # imports torch

    trained = tiny.fit_tiny(epochs=1, out=tmp_path / "run")
    rows = tiny.rows_data().inputs[:9]
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", rows)
    upload(tmp_path / "in", f"{memory}/in")
    run("extract", tmp_path / "run", f"{memory}/in", "--out", f"{memory}/out")
    (tmp_path / "a.npz").write_bytes(files(f"{memory}/out")["a.npz"])
    found = Outputs.load(tmp_path / "a.npz").logits
    np.testing.assert_allclose(found, trained.apply(rows).logits, rtol=1e-6)
    upload(tmp_path / "run", f"{memory}/run")
    words = ["extract", tmp_path / "run", f"{memory}/run", "--out", f"{memory}/no"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert "must be a folder of .tar or .npy files, got" in str(done.exception)


def test_shards_are_read_from_a_web_server(rejector, folder, web, tmp_path):  # noqa: F811
    for place, out in ((web, "far"), (folder, "near")):
        run("predict", rejector, place, "--out", tmp_path / out, "--format", "npz")
    for name in ("a", "b", "c"):
        far, near = ((tmp_path / out / f"{name}.npz") for out in ("far", "near"))
        assert far.read_bytes() == near.read_bytes()


def test_a_shard_that_fails_is_recorded_and_leaves_nothing(rejector, folder, memory):  # noqa: F811
    upload(folder, f"{memory}/shards")
    fsspec.url_to_fs(memory)[0].pipe_file(f"{memory}/shards/c.parquet", b"damaged")
    job = shards.Predict(rejector, format="npz")
    done = shards.run(job, f"{memory}/shards", f"{memory}/out", backend="sequential")
    assert [one["shard"] for one in done.failed] == ["c"]
    assert done.folder == f"{memory}/out"
    left = {name for name in files(f"{memory}/out") if not name.startswith("failed/")}
    assert left == {"a.npz", "b.npz", "job.json"}
    upload(folder, f"{memory}/shards")  # mended
    done = shards.run(job, f"{memory}/shards", f"{memory}/out", backend="sequential")
    assert (done.n_run, done.failed) == (1, ())
    fsspec.url_to_fs(memory)[0].pipe_file(f"{memory}/shards/c.parquet", b"damaged")
    with pytest.raises(ValueError, match="results of another c"):
        shards.run(job, f"{memory}/shards", f"{memory}/out", backend="sequential")


def test_the_tag_of_an_object_store_tells_other_content():
    entry = Entry(
        "s3://b", "a.npz", ("b/a.npz",), is_folder=False, n_bytes=12, tag='"c0ffee"'
    )
    assert shards.Shard("a", Path("a.npz"), entry).content == '12 bytes "c0ffee"'


def test_a_local_folder_by_its_url_is_a_folder(tmp_path):
    assert store(tmp_path.as_uri(), caller="test") == Folder(tmp_path)


def test_a_job_that_ends_early_uploads_nothing(memory):
    def write_half():
        with ObjectStore(memory, "test").filling() as place:
            (place / "a.npz").write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert files(memory) == {}


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("best://shards", ValueError, "test: best://shards must be a URL that fsspec"),
        ("memory://nothing-here", FileNotFoundError, "nothing-here"),
    ],
)
def test_a_url_without_shards_is_named(url, error, message):
    with pytest.raises(error, match=message):
        shards.find(url, caller="test")


def test_the_package_of_a_store_is_named(monkeypatch):
    def missing(_):
        msg = "Install s3fs to access S3"
        raise ImportError(msg)

    monkeypatch.setattr(fsspec, "url_to_fs", missing)
    with pytest.raises(
        MissingExtraError, match="s3://b needs another package: Install"
    ):
        shards.find("s3://b", caller="test")


def test_invalid_samples_are_counted_before_the_shard_is_done(
    rejector,  # noqa: F811
    tmp_path,
    memory,
    monkeypatch,
):
    """A run that is killed between two uploads does not lose their number."""
    there = fsspec.url_to_fs(memory)[0]
    uploaded, put = [], type(there).put_file

    def put_file(self, local, path, **options):
        uploaded.append(path.rpartition("/out/")[2])
        return put(self, local, path, **options)

    monkeypatch.setattr(type(there), "put_file", put_file)
    bad = np.full((2, 4), np.nan)
    outputs = Outputs(logits=bad, features=np.zeros((2, 8)), invalid="keep")
    # By their names alone the file of decisions would be uploaded first.
    outputs.save(tmp_path / "in" / "a.npz")
    words = ["predict", rejector, tmp_path / "in", "--out", f"{memory}/out"]
    text = run(*words, "--format", "npz", "--invalid", "reject")
    assert uploaded == ["invalid/a.json", "a.npz"]
    assert "2 samples in 1 shards are invalid" in " ".join(text.split())
