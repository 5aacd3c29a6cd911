"""Cells: test splits, saved outputs, thresholds."""

from pathlib import Path

import numpy as np
import pytest

from openset import Outputs, Scores, bench, detectors, metrics, runs, thresholds
from openset.bench import parse

STUDY = b"""
protocols: [{kind: operational, name: digits, data: digits, known: 5, surrogate: 2,
             unknown: 3, repeats: 2, n_tests: 3}]
models: [{kind: logistic}]
detectors: [msp, maxlogit]
calibrate: {}
"""


def run(text, out, base=None):
    study = parse(text, base or Path())
    return bench.run(study, out, backend="sequential")


def test_every_test_split_is_measured_and_shares_its_network(tmp_path, monkeypatch):
    fits = []
    real = detectors.MSP.fit
    monkeypatch.setattr(
        detectors.MSP, "fit", lambda self, train: (fits.append(1), real(self, train))[1]
    )
    assert run(STUDY, tmp_path).n_run == 12
    assert len(fits) == 2  # one per network, not one per split
    table = runs.results(tmp_path).where(metric="auroc", detector="msp")
    assert table.column("repeat").tolist() == [0, 0, 0, 1, 1, 1]
    assert table.column("split").tolist() == [0, 1, 2] * 2
    assert np.unique(table.column("value")).size == 6
    assert len(list((tmp_path / "networks").iterdir())) == 2


def saved(folder, rng, **more):
    """Write the outputs of a network, with two kinds of unknowns."""
    labels = np.repeat([0, 1, 2, -1, -1], [30, 30, 30, 20, 40])
    groups = np.repeat(["k", "k", "k", "near", "far"], [30, 30, 30, 20, 40])
    logits = rng.normal(size=(150, 3)) + 3 * np.eye(4)[labels][:, :3]
    test = Outputs(logits=logits, labels=labels, groups=groups)
    test.save(folder / "test")
    test.take(labels >= 0).save(folder / "train.npz")
    return test


@pytest.mark.parametrize("how", ["dealt", "shared"])
def test_saved_outputs_are_divided_into_splits(tmp_path, rng, how):
    test = saved(tmp_path / "net", rng)
    text = f"""
outputs: [{{name: saved, path: net, n_tests: 5, unknowns: {how}}}]
detectors: [msp]
"""
    run(text.encode(), tmp_path / "run", tmp_path)
    cells = runs.read_cells(tmp_path / "run")
    parts = [Scores.load(tmp_path / "run/scores" / f"{c.id}.npz") for c in cells]
    assert [cell.key["split"] for cell in cells] == [0, 1, 2, 3, 4]
    each = 12 if how == "dealt" else 60
    for part in parts:
        assert np.bincount(part.labels[part.labels >= 0]).tolist() == [6, 6, 6]
        assert part.n_unknown == each
        assert np.count_nonzero(part.groups == "near") == each // 3
    known = test.take(test.labels >= 0)
    values = np.sort(np.concatenate([p.known[p.labels >= 0] for p in parts]))
    scored = detectors.MSP().fit(known).score(known).known
    assert np.array_equal(values, np.sort(scored))
    first = next(row for row in cells[0].rows if row["metric"] == "auroc")
    assert first["value"] == metrics.auroc(parts[0])


@pytest.mark.parametrize(
    ("calibrate", "words"),
    [
        ("{}", "validation.npz, or validation/ of .npy files, got no such file"),
        ("{surrogate: none, objective: osa}", "validation"),
    ],
)
def test_what_is_missing_fails_by_name(tmp_path, rng, calibrate, words):
    saved(tmp_path / "net", rng)
    text = f"""
outputs: [{{name: a, path: net}}, {{name: b, path: gone}}]
detectors: [msp]
calibrate: {calibrate}
"""
    failed = run(text.encode(), tmp_path / "run", tmp_path).failed
    errors = {one["key"]["protocol"]: one["error"] for one in failed}
    assert words in errors["a"]
    assert "gone must be a folder with train.npz" in errors["b"]


def test_a_threshold_is_chosen_on_the_surrogate_part(tmp_path, rng):
    other = saved(tmp_path / "net", rng)
    test = saved(tmp_path / "net", rng)
    known, surrogate = (other.take(other.labels >= 0), other.take(other.labels < 0))
    known.save(tmp_path / "net" / "validation")
    surrogate.save(tmp_path / "net" / "surrogate")
    text = b"outputs: [{name: a, path: net}]\ndetectors: [msp]\ncalibrate: {}\n"
    run(text, tmp_path / "run", tmp_path)
    (cell,) = runs.read_cells(tmp_path / "run")
    fitted = detectors.MSP().fit(test.take(test.labels >= 0))
    chosen = thresholds.osa(fitted.score(other), alpha=0.5)
    assert cell.threshold["value"] == chosen.value
    oosa = thresholds.operate(chosen, fitted.score(test)).oosa
    assert (cell.operation["oosa"], cell.operation["alpha"]) == (oosa, 0.5)
