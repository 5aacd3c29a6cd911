"""Test splits of a study: each is a repeat, cut as `datasets.cut` cuts."""

import numpy as np
import pytest

from openset import Outputs, bench, datasets, detectors, metrics, protocols, runs, stats
from openset.bench import parse, plan

STUDY = b"""
protocols: [{kind: operational, name: digits, data: digits, known: 5, surrogate: 2,
             unknown: 3, repeats: 2, n_tests: 3}]
models: [{kind: logistic}]
detectors: [msp, maxlogit]
calibrate: {}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "splits"
    bench.run(parse(STUDY, "study.yaml"), out, backend="sequential")
    return out


def test_every_test_split_is_measured_and_shares_its_network(done):
    made = plan(parse(STUDY, "study.yaml"))
    assert (len(made), len(made.networks())) == (2 * 3 * 2, 2)
    table = runs.results(done).where(metric="auroc", detector="msp")
    assert table.column("repeat").tolist() == [0, 0, 0, 1, 1, 1]
    assert table.column("split").tolist() == [0, 1, 2] * 2
    assert np.unique(table.column("value")).size == 6
    assert len(list((done / "networks").iterdir())) == 2
    (test,) = stats.paired_t(runs.results(done), "auroc")
    assert (test.n, test.over) == (2, "2 repeats, means of 6 runs")


def test_the_splits_are_those_of_the_protocol(done):
    digits = datasets.load("digits")
    drawn = protocols.load(done / "protocols.json")
    assert [one.n_tests for one in drawn] == [3, 3]
    for cell in runs.read_cells(done):
        scores = runs.read_scores(done / "scores" / f"{cell.id}.npz")
        draw, split = cell.key["repeat"], cell.key["split"]
        mine = datasets.cut(digits, drawn[draw]).tests[split]
        assert sorted(scores.labels.tolist()) == sorted(mine.labels.tolist())
        assert sorted(scores.groups.tolist()) == sorted(mine.groups.tolist())


def test_all_splits_together_are_the_whole_test_part(done):
    folder = next((done / "networks").iterdir())
    masks = np.load(folder / "test_splits.npy")
    whole = Outputs.load(folder / "test")
    assert masks.shape == (3, len(whole))
    assert (masks.sum(axis=0) == 1).all()  # dealt: each sample in exactly one


def test_unknown_samples_may_be_shared_by_all_splits(tmp_path):
    text = STUDY.replace(b"n_tests: 3", b"n_tests: 3, unknowns: shared")
    bench.run(parse(text, "study.yaml"), tmp_path, backend="sequential")
    for cell in runs.read_cells(tmp_path):
        draw, split = cell.key["repeat"], cell.key["split"]
        drawn = protocols.load(tmp_path / "protocols.json")[draw]
        tests = datasets.cut(datasets.load("digits"), drawn).tests
        scores = runs.read_scores(tmp_path / "scores" / f"{cell.id}.npz")
        n_unknown = [(one.labels == -1).sum() for one in tests]
        assert n_unknown == [(scores.labels == -1).sum()] * 3
        assert sorted(scores.labels) == sorted(tests[split].labels)


def test_a_protocol_file_is_run_with_the_splits_it_records(tmp_path):
    digits = datasets.load("digits")
    drawn = protocols.operational(
        digits, 5, 2, 3, repeats=2, rng=1, n_tests=4, unknowns="shared"
    )
    drawn.save(tmp_path / "five.json")
    text = b"""
protocols: [{kind: file, path: five.json, data: digits, max_test: 300}]
models: [{kind: logistic}]
detectors: [msp]
"""
    study = parse(text, "study.yaml", base=tmp_path)
    bench.run(study, tmp_path / "run", backend="sequential")
    table = runs.results(tmp_path / "run").where(metric="auroc")
    assert table.column("repeat").tolist() == [0] * 4 + [1] * 4
    sizes = table.column("n")
    masks = [
        np.load(f / "test_splits.npy") for f in (tmp_path / "run/networks").iterdir()
    ]
    assert sorted(sizes) == sorted(int(n) for m in masks for n in m.sum(axis=1))
    # The unknown samples are in all four splits, of the 300 that max_test leaves.
    assert all(set(m.sum(axis=0)) == {1, 4} and m.shape == (4, 300) for m in masks)


@pytest.mark.parametrize("unknowns", ["dealt", "shared"])
def test_saved_outputs_are_divided_into_splits(tmp_path, rng, unknowns):
    labels = np.repeat([0, 1, 2, -1, -1], [30, 30, 30, 20, 40])
    groups = np.repeat(["k", "k", "k", "near", "far"], [30, 30, 30, 20, 40])
    logits = rng.normal(size=(150, 3)) + 3 * np.eye(4)[labels][:, :3]
    test = Outputs(logits=logits, labels=labels, groups=groups)
    test.save(tmp_path / "net" / "test")
    known = test.take(labels >= 0)
    known.save(tmp_path / "net" / "train")
    text = f"""
outputs: [{{name: saved, path: net, n_tests: 5, unknowns: {unknowns}}}]
detectors: [msp]
"""
    study = parse(text.encode(), "study.yaml", base=tmp_path)
    bench.run(study, tmp_path / "run", backend="sequential")
    cells = runs.read_cells(tmp_path / "run")
    parts = [runs.read_scores(tmp_path / "run/scores" / f"{c.id}.npz") for c in cells]
    assert [cell.key["split"] for cell in cells] == [0, 1, 2, 3, 4]
    each = 12 if unknowns == "dealt" else 60
    for part in parts:
        assert np.bincount(part.labels[part.labels >= 0]).tolist() == [6, 6, 6]
        assert part.n_unknown == each
        assert np.count_nonzero(part.groups == "near") == each // 3
    values = np.sort(np.concatenate([p.known[p.labels >= 0] for p in parts]))
    scored = detectors.MSP().fit(known).score(known).known
    assert np.array_equal(values, np.sort(scored))
    if unknowns == "shared":
        first = next(row for row in cells[0].rows if row["metric"] == "auroc")
        assert first["value"] == metrics.auroc(parts[0])


def test_outputs_of_one_name_have_the_same_number_of_splits():
    text = b"""
outputs:
- {name: a, path: x, n_tests: 5}
- {name: a, path: y, repeat: 1}
detectors: [msp]
"""
    with pytest.raises(ValueError, match=r"outputs\[1\].n_tests must be 5, as in"):
        parse(text, "study.yaml")


def test_more_splits_than_samples_are_refused(tmp_path):
    test = Outputs(logits=np.eye(4), labels=[0, 1, 2, -1])
    test.save(tmp_path / "test")
    test.take([0, 1, 2]).save(tmp_path / "train")
    text = b"outputs: [{name: a, path: ., n_tests: 2}]\ndetectors: [msp]"
    study = parse(text, "study.yaml", base=tmp_path)
    failed = bench.run(study, tmp_path / "run", backend="sequential").failed
    assert "n_tests must be at most the number of unknown test samples" in str(failed)


def test_a_detector_is_fitted_once_for_all_splits(tmp_path, monkeypatch):
    fits = []
    real = detectors.MSP._fit

    def counted(self, train):
        fits.append(len(train))
        return real(self, train)

    monkeypatch.setattr(detectors.MSP, "_fit", counted)
    study = parse(STUDY, "study.yaml")
    bench.run(study, tmp_path / "run", backend="sequential")
    assert len(fits) == 2  # one per network, not one per split
