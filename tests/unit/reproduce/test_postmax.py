"""Items of the PostMax paper: on digits, and against numbers computed by hand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from openset import Outputs, detectors, metrics, reproduce
from openset.reproduce import (
    Settings,
    _operational,
    _postmax_significance,
    _scale,
    postmax,
)

ITEMS = [
    item
    for item in reproduce.items()
    if item.name.startswith("postmax-") and item.name != "postmax-scale"
]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Write outputs of the small network on digits."""
    folder = tmp_path_factory.mktemp("outputs")
    _operational.make_example(folder / "digits")
    return folder


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_every_item_runs_on_digits(item, example, tmp_path):
    settings = Settings(out=tmp_path, outputs=example)
    made = reproduce.run(item, settings)
    assert made.tables
    assert all(table.rows for table in made.tables)
    assert "digits, MLP" in made.markdown()
    assert made.command == f"openset reproduce {item.name} --outputs outputs"
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "scores").rglob("*.npz")}
    again = reproduce.run(item, settings)  # scores are not computed again
    assert again.tables == made.tables
    assert {p: p.stat().st_mtime_ns for p in before} == before


def entry(table, row, column):
    rows = {r[0].partition(" (")[0]: r for r in table.rows}
    return rows[row][table.columns.index(column)]


def by_hand(folder):
    """Return test scores by split and the threshold of the paper, in plain NumPy."""
    part = {
        name: Outputs.load(folder / "digits" / name)
        for name in (
            *("validation", "test", "surrogate/fives and sixes"),
            "unknown/sevens to nines",
        )
    }

    def ratio(outputs):
        return outputs.logits.max(axis=1) / np.linalg.norm(outputs.features, axis=1)

    known, other = part["validation"], part["surrogate/fives and sixes"]
    correct = known.logits.argmax(axis=1) == known.labels
    accuracy = {
        t: ((ratio(known) >= t) & correct).mean() + (ratio(other) < t).mean()
        for t in [*ratio(known), *ratio(other), np.inf]
    }
    best = max(accuracy.values())
    threshold = min(t for t, n in accuracy.items() if n >= best - 1e-12)
    test, unknown = part["test"], part["unknown/sevens to nines"]
    right = test.logits.argmax(axis=1) == test.labels
    accepted = (ratio(test) >= threshold) & right
    rejected = (ratio(unknown) < threshold).sum()
    return test, accepted, rejected, len(unknown)


def test_table_1_is_the_accuracy_of_the_operational_threshold(example, tmp_path):
    made = postmax.table1(Settings(out=tmp_path, outputs=example))
    test, accepted, rejected, n_unknown = by_hand(example)
    network = _operational.networks(Settings(out=tmp_path, outputs=example))[0]
    splits = network.splits()
    assert splits.shape == (5, len(test))
    assert (splits.sum(axis=0) == 1).all()
    values = [
        (accepted[rows].sum() + rejected) / (rows.sum() + n_unknown) for rows in splits
    ]
    found = entry(made.tables[-1], "sevens to nines", "PostMax")
    assert found.value == pytest.approx(np.mean(values))
    assert found.spread == pytest.approx(np.std(values, ddof=1))
    assert found.n == 5


def test_auoscr_is_openauc(example, tmp_path):
    made = postmax.more_metrics(Settings(out=tmp_path, outputs=example))
    area, pairs = made.tables
    for column in reproduce.published("postmax-table1").columns:
        one, other = (entry(t, "sevens to nines", column) for t in (area, pairs))
        assert one.value == pytest.approx(other.value, abs=1e-12)


def test_without_a_norm_the_order_is_that_of_the_largest_logit(example, tmp_path):
    settings = Settings(out=tmp_path, outputs=example)
    (network,) = _operational.networks(settings)
    plain = network.scores("none", detectors.PostMax(norm="none"), "test")
    largest = network.scores("MaxLogit", detectors.MaxLogit(), "test")
    assert np.array_equal(np.argsort(plain.known), np.argsort(largest.known))


def test_tables_3_and_4_test_on_the_validation_samples(example, tmp_path):
    made = postmax.table4(Settings(out=tmp_path, outputs=example))
    (network,) = _operational.networks(Settings(out=tmp_path, outputs=example))
    method = ("MSP", detectors.MSP())
    scores = _operational.joined(
        network.scores(*method, "validation"),
        network.scores(*method, "unknown/fives and sixes"),
    )
    found = entry(made.tables[-2], "fives and sixes", "MSP")
    assert found.value == metrics.auroc(scores)


def test_a_network_of_the_paper_has_its_published_numbers_beside(example, tmp_path):
    folder = tmp_path / "outputs" / "hiera"
    for part in ("train", "validation", "test", "surrogate/fives and sixes"):
        Outputs.load(example / "digits" / part).save(folder / part)
    Outputs.load(example / "digits/unknown/sevens to nines").save(
        folder / "unknown/NINCO"
    )
    about = {"title": "Hiera-H", "surrogate": "fives and sixes", "easy": "NINCO"}
    (folder / "network.json").write_text(json.dumps(about), encoding="utf-8")
    made = postmax.table1(Settings(out=tmp_path / "o", outputs=tmp_path / "outputs"))
    table = made.tables[-1]
    assert entry(table, "NINCO", "MSP, paper").value == 0.739
    assert entry(table, "NINCO", "MSP").n == 5


def test_scale_is_left_out_where_features_are_negative(example, tmp_path):
    folder = tmp_path / "outputs" / "negative"
    for path in (example / "digits").rglob("meta.json"):
        one = Outputs.load(path.parent)
        features = one.features - 10
        changed = Outputs(
            features=features,
            logits=one.logits,
            labels=one.labels,
            weight=one.weight,
            bias=one.bias,
        )
        changed.save(folder / path.parent.relative_to(example / "digits"))
    about = (example / "digits/network.json").read_text("utf-8")
    (folder / "network.json").write_text(about, encoding="utf-8")
    made = postmax.table2(Settings(out=tmp_path / "o", outputs=tmp_path / "outputs"))
    assert entry(made.tables[-1], "sevens to nines", "SCALE") is None
    assert any("SCALE is not defined" in note for note in made.notes)


def test_wrong_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="one folder per network"):
        _operational.networks(Settings(out=tmp_path, outputs=tmp_path / "none"))
    (tmp_path / "x" / "net").mkdir(parents=True)
    (tmp_path / "x" / "net" / "network.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="must be JSON with title"):
        _operational.networks(Settings(out=tmp_path, outputs=tmp_path / "x"))


def test_the_printed_means_are_those_of_the_tables():
    table = _postmax_significance._printed_means()
    paper = reproduce.published("postmax-table1").values
    gains = [
        np.mean([v["PostMax"].value - v[m].value for k, v in paper.items() if k > "D"])
        for m in ("MSP", "MaxLogit", "NNGuide", "SCALE")
    ]
    assert table.rows[0][4:] == pytest.approx((100 * min(gains), 100 * max(gains)))
    assert round(table.rows[0][4], 1) == 3.1


def test_the_size_of_the_paper_is_tried_on_outputs_that_are_removed(tmp_path):
    settings = Settings(out=tmp_path)
    made = _scale.scale(settings, share=0.01, n_classes=20, n_features=8)
    (table,) = made.tables
    assert [row[0].split(",")[0] for row in table.rows] == list(_scale_names())
    assert table.title.startswith("12,811 training samples, 20 classes")
    assert all(number >= 0 for row in table.rows for number in row[1:])
    assert not (tmp_path / "outputs").exists()


def _scale_names():
    return ("PostMax", "MSP", "MaxLogit", "SCALE", "NNGuide")


def test_numbers_in_the_text_of_the_page_are_in_its_results():
    papers = Path(__file__).parents[3] / "docs" / "papers"
    if not papers.exists():
        pytest.skip("the documentation is not installed")
    page = (papers / "postmax.md").read_text("utf-8")
    text = re.sub(r"<!-- results: .*?<!-- end -->", "", page, flags=re.DOTALL)
    shown = {
        word
        for path in papers.glob("results/postmax-*.json")
        for table in reproduce.load(path).tables
        for row in table.texts()
        for entry in row
        for word in entry.split()
    }
    said = re.findall(r"\b0\.\d{3}\b", text)
    assert said
    assert set(said) <= shown
