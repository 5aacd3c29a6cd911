"""One bad sample among many shards: counted and named, and the others answered."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors, shards
from openset.cli import app
from tests.rejector.data import drawn

pq = pytest.importorskip("pyarrow.parquet", reason="Parquet is optional")
pa = pytest.importorskip("pyarrow")

WHOLE = drawn(90, seed=5)
IDS = np.array([f"{i}.png" for i in range(90)])


@pytest.fixture(scope="module")
def rejector(tmp_path_factory):
    made = Rejector.calibrate(
        detectors.KNN(k=3).fit(drawn(300, seed=1)),
        known=drawn(200, seed=2),
        surrogate=drawn(200, seed=3, unknown=True),
    )
    return made.save(tmp_path_factory.mktemp("saved") / "rejector")


def part(a, b, bad=()):
    logits = np.array(WHOLE.logits)[a:b]
    logits[list(bad), 1] = np.nan
    features = np.asarray(WHOLE.features)[a:b]
    return Outputs(logits=logits, features=features, ids=IDS[a:b], invalid="keep")


@pytest.fixture
def folder(tmp_path):
    """Return three shards; of the second and third, three samples are bad."""
    path = tmp_path / "shards"
    path.mkdir()
    part(0, 30).save(path / "a.npz")
    part(30, 60, bad=[25]).save(path / "b")
    bad = part(60, 90, bad=[4])
    columns = {
        "logits": list(bad.logits),
        # of the last sample there is nothing
        "features": [*bad.features[:-1], None],
        "ids": IDS[60:90],
    }
    pq.write_table(pa.table(columns), path / "c.parquet")
    return path


def table(out, name):
    return {n: c.to_numpy() for n, c in zip(*_columns(out / f"{name}.parquet"))}  # noqa: B905


def _columns(path):
    found = pq.read_table(path)
    return found.column_names, found.columns


def run(*words):
    return CliRunner().invoke(app, [*map(str, words), "--backend", "sequential"])


@pytest.mark.parametrize("rows", [7, 29, 65536])
def test_the_bad_samples_are_marked_and_the_others_answered_as_if_alone(
    rejector, folder, tmp_path, rows
):
    job = shards.Predict(rejector, rows=rows, invalid="reject")
    done = shards.run(job, folder, tmp_path / "out", backend="sequential")
    assert done.failed == ()
    assert done.n_invalid == 3
    assert done.invalid == (
        {"shard": "b", "n": 1, "row": 25, "id": "55.png"},
        {"shard": "c", "n": 2, "row": 4, "id": "64.png"},
    )
    opened = Rejector.load(rejector)
    for name, start, bad in (("a", 0, []), ("b", 30, [25]), ("c", 60, [4, 29])):
        found = table(tmp_path / "out", name)
        assert_array_equal(np.flatnonzero(found["invalid"]), bad)
        assert (found["decision"][bad] == -1).all()
        assert (found["predicted"][bad] == -1).all()
        assert np.isnan(found["known"][bad]).all()
        for first in range(0, 30, rows):  # as if alone, read in the same parts
            places = [i for i in range(first, min(first + rows, 30)) if i not in bad]
            if places:
                alone = opened.decide(WHOLE.take([start + i for i in places]))
                assert_array_equal(found["known"][places], alone.known)
                assert_array_equal(found["decision"][places], alone.labels)


def test_shards_that_failed_are_done_later_without_the_others(
    rejector, folder, tmp_path
):
    words = ["predict", rejector, folder, "--out", tmp_path / "out"]
    first = run(*words)
    assert first.exit_code == 1
    assert "1 of 3 shards" in first.output
    assert "first in row 25" in first.output
    second = run(*words, "--invalid", "reject")
    assert second.exit_code == 0, second.output
    text = " ".join(second.output.split())
    assert "3 of 3 shards" in text
    assert "(2 run now" in text
    assert "3 samples in 2 shards are invalid and answered with unknown" in text
    assert "the first: row 25 of b, 55.png" in text
    # Also of a run that has nothing left to do.
    assert "3 samples in 2 shards" in " ".join(run(*words).output.split())
    names = [_columns(file)[0] for file in sorted((tmp_path / "out").glob("*.parquet"))]
    assert names[0] == names[1] == names[2]  # so that they are one table


def test_a_missing_list_is_an_error_without_reject(folder):
    (_, _, third) = shards.find(folder)
    with pytest.raises(ValueError, match="features must be lists of one length"):
        list(shards.read(third, rows=100))
    # A batch of missing lists alone is as wide as the ones before.
    *_, last = shards.read(third, rows=29, invalid="keep")
    assert last.features.shape == (1, 8)
    assert last.is_invalid.tolist() == [True]


def test_another_choice_is_refused(rejector):
    with pytest.raises(ValueError, match="invalid must be one of 'error', 'reject'"):
        shards.Predict(rejector, invalid="keep")


def test_a_detector_that_fails_on_a_shard_does_not_lose_the_others(tmp_path):
    train = drawn(300, seed=1)
    fitted = {"knn": detectors.KNN(k=3).fit(train), "msp": detectors.MSP().fit(train)}
    files = tuple((n, one.save(tmp_path / f"{n}.npz")) for n, one in fitted.items())
    features = np.array(WHOLE.features)
    features[7] = np.inf  # KNN has no answer, MSP does not look at it
    (tmp_path / "in").mkdir()
    bad = Outputs(logits=WHOLE.logits, features=features, labels=WHOLE.labels)
    bad.save(tmp_path / "in" / "a.npz")
    WHOLE.save(tmp_path / "in" / "b.npz")
    job = shards.Score(files, format="npz", rows=40)
    with np.errstate(all="ignore"):
        done = shards.run(job, tmp_path / "in", tmp_path / "out", backend="sequential")
    (failed,) = done.failed
    assert failed["shard"] == "a"
    assert "knn: KNN: result must be free of NaN" in failed["error"]
    written = sorted(p.relative_to(tmp_path / "out") for p in tmp_path.glob("out/*/*"))
    names = [str(one) for one in written if one.suffix == ".npz"]
    assert names == ["knn/b.npz", "msp/a.npz", "msp/b.npz"]


def test_a_shard_that_was_mended_and_is_done_again_is_not_counted(
    rejector, folder, tmp_path
):
    out, job = tmp_path / "out", shards.Predict(rejector, invalid="reject")
    shards.run(job, folder, out, backend="sequential")
    part(30, 60).save(folder / "b")
    for file in out.rglob("b.parquet*"):
        file.unlink()
    done = shards.run(job, folder, out, backend="sequential")
    assert [one["shard"] for one in done.invalid] == ["c"]
