"""Items of the PostMax paper: on digits, and against numbers computed by hand."""

import json

import numpy as np
import pytest

from openset import Outputs, reproduce, runs
from openset.protocols.sampling import Stream, deal

ITEMS = [i.name for i in reproduce.items() if i.name.startswith("postmax-")]
NEAR, FAR = "two digits", "two other digits"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return a folder of outputs: those of the small network on digits."""
    out = tmp_path_factory.mktemp("digits")
    reproduce.run("postmax-fig2", out)
    return out / "outputs"


def entry(table, row, column):
    rows = {r[0].partition(" (")[0]: r for r in table.rows}
    return rows[row][table.columns.index(column)]


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_runs_on_digits(name, digits, tmp_path):
    made = reproduce.run(name, tmp_path, outputs=digits)
    assert all(table.rows for table in made.tables)
    assert "digits, no network of the paper" in made.markdown()
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("runs/*/scores/*.npz")}
    again = reproduce.run(name, tmp_path, outputs=digits)
    assert again.tables == made.tables
    # Scores are not computed again.
    assert {p: p.stat().st_mtime_ns for p in before} == before


def by_hand(folder):
    """Return test scores and the threshold of the paper, in plain NumPy."""
    names = ("validation", "test", f"surrogate/{NEAR}", f"unknown/{FAR}")
    known, test, other, unknown = (
        Outputs.load(folder / "digits" / f"{name}.npz") for name in names
    )

    def ratio(outputs):
        return outputs.logits.max(axis=1) / np.linalg.norm(outputs.features, axis=1)

    correct = known.logits.argmax(axis=1) == known.labels
    accuracy = {
        t: ((ratio(known) >= t) & correct).mean() + (ratio(other) < t).mean()
        for t in [*ratio(known), *ratio(other), np.inf]
    }
    best = max(accuracy.values())
    threshold = min(t for t, n in accuracy.items() if n >= best - 1e-12)
    right = test.logits.argmax(axis=1) == test.labels
    accepted = (ratio(test) >= threshold) & right
    return test, accepted, (ratio(unknown) < threshold).sum(), len(unknown)


def test_table_1_is_the_accuracy_of_the_operational_threshold(digits, tmp_path):
    made = reproduce.run("postmax-table1", tmp_path, outputs=digits)
    test, accepted, rejected, n_unknown = by_hand(digits)
    splits = deal(test.labels, 5, Stream("bench", 0))
    for label in np.unique(test.labels):  # each sample once, equal in every class
        assert np.ptp(np.bincount(splits[test.labels == label], minlength=5)) <= 1
    values = [
        (accepted[splits == i].sum() + rejected) / ((splits == i).sum() + n_unknown)
        for i in range(5)
    ]
    found = entry(made.tables[0], FAR, "PostMax")
    assert found.value == pytest.approx(np.mean(values))
    assert found.spread == pytest.approx(np.std(values, ddof=1))
    assert found.n == 5


def test_tables_3_and_4_test_on_the_validation_samples(digits, tmp_path):
    made = reproduce.run("postmax-table4", tmp_path, outputs=digits)
    outputs = [
        Outputs.load(digits / "digits" / f"{name}.npz")
        for name in ("validation", f"unknown/{NEAR}")
    ]
    logits = np.concatenate([one.logits for one in outputs])
    odds = logits.max(axis=1) - np.log(np.exp(logits).sum(axis=1))
    n = len(outputs[0])
    pairs = odds[:n, None] - odds[None, n:]
    auroc = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert entry(made.tables[0], NEAR, "MSP").value == pytest.approx(auroc)


def copy(digits, folder, change=lambda outputs: outputs, **about):
    """Copy the network of digits, under another title or with other outputs."""
    for path in (digits / "digits").rglob("*.npz"):
        to = folder / "copy" / path.relative_to(digits / "digits")
        change(Outputs.load(path)).save(to)
    was = json.loads((digits / "digits/network.json").read_text("utf-8"))
    text = json.dumps(was | about)
    (folder / "copy/network.json").write_text(text, encoding="utf-8")


def test_a_network_of_the_paper_has_its_published_numbers_beside(digits, tmp_path):
    copy(digits, tmp_path / "outputs", title="Hiera-H")
    folder = tmp_path / "outputs/copy/unknown"
    (folder / f"{FAR}.npz").rename(folder / "NINCO.npz")
    made = reproduce.run("postmax-table1", tmp_path, outputs=tmp_path / "outputs")
    assert entry(made.tables[0], "NINCO", "MSP, paper").value == 0.739
    assert entry(made.tables[0], "NINCO", "MSP").n == 5


def test_scale_is_left_out_where_features_are_negative(digits, tmp_path):
    def shifted(one):
        return Outputs(
            features=one.features - 10,
            logits=one.logits,
            labels=one.labels,
            weight=one.weight,
            bias=one.bias + 10 * one.weight.sum(axis=1),
        )

    copy(digits, tmp_path / "outputs", shifted)
    made = reproduce.run("postmax-table2", tmp_path, outputs=tmp_path / "outputs")
    assert entry(made.tables[0], FAR, "SCALE") is None
    assert any(note.startswith("SCALE: ") for note in made.notes)


def test_p_values_are_corrected_for_all_pairs(digits, tmp_path):
    (table,) = reproduce.run("postmax-tests", tmp_path, outputs=digits).tables
    assert len(table.rows) == 12  # three metrics, four other methods
    results = runs.results(tmp_path / "runs" / "digits")
    ours, msp = (
        results.where(detector=m, metric="auroc").column("value")
        for m in ("PostMax", "MSP")
    )
    row = next(r for r in table.rows if r[1:3] == ["AUROC", "MSP"])
    assert row[3] == pytest.approx((ours - msp).mean())
    t = (ours - msp).mean() / ((ours - msp).std(ddof=1) / np.sqrt(5))
    stats = pytest.importorskip("scipy.stats")
    assert float(row[5]) == pytest.approx(
        min(1, 12 * 2 * stats.t.sf(abs(t), 4)), rel=0.5
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "outputs must be a folder with one folder per network"),
     ("{}", "missing 3 required keyword-only arguments: 'title'")],
)  # fmt: skip
def test_wrong_folders_are_named(tmp_path, text, words):
    (tmp_path / "x" / "net").mkdir(parents=True)
    if text:
        (tmp_path / "x/net/network.json").write_text(text, encoding="utf-8")
    with pytest.raises((ValueError, TypeError), match=words):
        reproduce.run("postmax-table1", tmp_path / "o", outputs=tmp_path / "x")
