"""`openset predict`."""

import json

import numpy as np
import pytest

from openset import Outputs, Rejector


@pytest.fixture
def decided(files):
    rejector, new = Rejector.load(files / "rejector"), Outputs.load(files / "test.npz")
    return rejector, new, rejector.decide(new)


def test_decisions_are_those_of_the_rejector_in_every_form(
    run, run_json, tmp_path, decided
):
    rejector, new, wanted = decided
    found = run_json("predict", "rejector", "test.npz")
    assert found["decisions"] == json.loads(json.dumps(rejector.rows(wanted, new)))
    assert (found["n"], found["n_rejected"]) == (len(new), wanted.n_rejected)
    out = tmp_path / "x.csv"
    assert f"wrote {out}" in run("predict", "rejector", "test.npz", "--out", out)
    rejector.save_decisions(tmp_path / "y.csv", wanted, new)
    assert out.read_text() == (tmp_path / "y.csv").read_text()
    run("predict", "rejector", "test.npz", "--out", tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as arrays:
        np.testing.assert_array_equal(arrays["decision"], wanted.labels)
    text = run("predict", "rejector", "test.npz")
    assert f"{wanted.n_rejected} of 300 samples unknown" in text
    assert "and 290 more samples" in text
    for row in rejector.rows(wanted, new)[:10]:
        assert row["id"] in text
        assert f"{row['known']:.4f}" in text


def test_of_labelled_samples_the_rates_are_shown(run, run_json, decided):
    rejector, new, _ = decided
    rates = rejector.threshold.rates(rejector.score(new))
    shares = {"tpr": rates.tpr, "ccr": rates.ccr, "urr": rates.urr}
    assert run_json("predict", "rejector", "test.npz")["rates"] == shares
    text = run("predict", "rejector", "test.npz")
    assert f"{rates.tpr:.1%} of the known samples accepted" in text
    assert f"{rates.urr:.1%} of the unknown samples rejected" in text
    assert "of the known" not in run("predict", "rejector", "far.npz")
    assert run_json("predict", "rejector", "far.npz")["rates"].keys() == {"urr"}


def test_samples_of_the_calibration_are_pointed_out(run, files, tmp_path):
    parts = [Outputs.load(files / f"{name}.npz") for name in ("val", "near", "far")]
    Outputs.concat(parts).save(tmp_path / "same.npz")
    words = "predict", "rejector"
    said = run(*words, tmp_path / "same.npz", stream="stderr")
    assert "The threshold was chosen on these samples" in said
    # What calibration warned of is not repeated for ever.
    assert Rejector.load(files / "rejector").cautions
    assert run(*words, "test.npz", stream="stderr") == ""


@pytest.fixture
def spoilt(files, tmp_path):
    given = Outputs.load(files / "test.npz")
    logits = np.array(given.logits)
    logits[3, 1], logits[20] = np.nan, np.inf
    parts = {"logits": logits, "features": given.features, "labels": given.labels}
    parts |= {"classes": given.classes, "ids": given.ids}
    return Outputs(**parts, invalid="keep").save(tmp_path / "odd.npz")


def test_invalid_samples_are_an_error_or_rejected(run, run_json, fails, spoilt):
    words = "predict", "rejector", spoilt
    said = fails(*words)
    assert "row 3" in said
    assert "use --invalid reject" in said
    given = Outputs.load(spoilt, invalid="keep")
    alone = Rejector.load("rejector").decide(given.take(~given.is_invalid))
    found = run_json(*words, "--invalid", "reject")
    assert (found["n_invalid"], found["n_rejected"]) == (2, alone.n_rejected)
    known = [one["known"] for one in found["decisions"]]
    assert [i for i, one in enumerate(known) if one is None] == [3, 20]
    assert [one for one in known if one is not None] == alone.known.tolist()
    said = run(*words, "--invalid", "reject", stream="stderr")
    assert "2 of 300 samples are invalid" in said
    assert f"the first: {given.ids[3]}" in said
    assert "unknown (invalid)" in run(*words, "--invalid", "reject")


def test_a_folder_of_shards_gives_a_file_each(run, fails, tmp_path, decided):
    pytest.importorskip("pyarrow", reason="the extra tables")
    from pyarrow import parquet  # noqa: PLC0415

    words = "predict", "rejector", "shards", "--jobs", 1
    assert "2 of 2 shards" in run(*words, "--out", tmp_path / "out")
    found = parquet.read_table(tmp_path / "out" / "a.parquet")
    assert found["decision"].to_pylist() == decided[2].labels.tolist()
    assert "--out must be given" in fails(*words)
