"""Items that are studies: on stand-ins for their data, and laid out from results."""

import re

import numpy as np
import pytest

from openset import bench, reproduce, runs
from openset.reproduce import studies
from openset.reproduce.studies import laid_out, mean
from openset.results import Result, Results

pytest.importorskip("torch", reason="trains networks")
ITEMS = {i.name: i for i in reproduce.items()}
STUDIES = [name for i in ITEMS.values() for name in i.options.get("studies", ())]


def shorter(monkeypatch, **patterns):
    """Replace parts of the study files: fewer splits, epochs and units."""
    whole = studies.study_text

    def text(name):
        found = whole(name)
        for pattern, instead in patterns.values():
            found = re.sub(pattern, instead, found)
        return found

    monkeypatch.setattr(studies, "study_text", text)


def images(path, seed):
    """Write a data set of ten classes, told apart by their brightness."""
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(10), 16)
    shade = 10 + 24 * labels[:, None, None, None]
    noise = rng.integers(0, 12, (160, 32, 32, 3))
    np.savez(path, inputs=(shade + noise).astype(np.uint8), labels=labels)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_file_can_be_planned(name):
    study = bench.parse(studies.study_text(name))
    assert bench.plan(study)


def test_table_2_runs_on_a_stand_in_for_mnist(tmp_path, monkeypatch):
    images(tmp_path / "mnist.npz", 0)
    shorter(
        monkeypatch,
        splits=(rb"max_train: ", b"splits: [0], max_train: "),
        epochs=(rb"epochs: \d+, milestones: \[.*?\]", b"epochs: 1"),
        width=(rb"width: \d+", b"width: 8"),
    )
    out = tmp_path / "out"
    made = reproduce.run(
        "openauc-table2-small", out, root=tmp_path, backend="sequential"
    )
    (table,) = made.tables
    assert [row[0] for row in table.rows] == [
        *("softmax", "gcpl", "rpl", "arpl", "arpl_cs", "ceplus"),
        *("acc_auc paper", "acc_auc released", "openauc paper", "openauc released"),
    ]
    assert all(entry is not None for row in table.rows for entry in row)
    assert (table.rows[0][1].value, table.rows[-1][1].value) == (99.2, 99.4)
    softmax, ceplus = table.rows[0], table.rows[5]
    assert softmax[3:] == ceplus[3:]  # one recipe: the same network, two scores
    assert softmax[2] == softmax[4]
    assert ceplus[2] == ceplus[3]


def test_the_imbalance_study_runs_and_is_continued(tmp_path, monkeypatch):
    images(tmp_path / "cifar10.npz", 0)
    images(tmp_path / "svhn.npz", 1)
    shorter(
        monkeypatch,
        epochs=(rb"epochs: \d+", b"epochs: 2"),
        size=(rb"max_train: \d+, max_test: \d+", b"max_test: 100"),
    )
    out, name = tmp_path / "out", "class-imbalance-small"
    made = reproduce.run(name, out, root=tmp_path, backend="sequential")
    *scores, by_definition = made.tables
    pairs = ["0.142 (7, 5)", "0.147 (4, 3)", "0.202 (7, 8)", "0.220 (7, 9)"]
    for table in scores:
        assert [row[0] for row in table.rows] == [*pairs, "0.423 (2, 8)"]
        assert all(entry is not None for row in table.rows for entry in row)
    cells = runs.read_cells(out / name)
    assert {cell.key["repeat"] for cell in cells} == {0, 1}
    assert scores[0].rows[0][2].n == 1  # both folds of the one draw are one number
    # Table 1 averages over K + 1 classes, the definition over K.
    for of_paper, of_definition in zip(scores[2].rows, by_definition.rows, strict=True):
        k = int(of_paper[0].partition("(")[2][0])
        for i in range(4):
            ours, definition = of_paper[2 + 2 * i].value, of_definition[1 + i].value
            assert ours == pytest.approx(definition * k / (k + 1))
    assert (out / f"{name}-fig6.png").stat().st_size > 0
    again = reproduce.run(name, out, root=tmp_path, backend="sequential")
    assert again.tables == made.tables
    assert [c.provenance for c in runs.read_cells(out / name)] == [
        c.provenance for c in cells
    ]  # nothing was trained again


def results_of(values):
    names = {"protocol": "A", "method": "m", "metric": "auroc"}
    return Results(
        Result(repeat=repeat, seed=seed, value=value, **names)
        for (repeat, seed), value in values.items()
    )


def test_a_mean_is_over_networks_or_over_draws():
    both = mean(results_of({(0, 0): 0.1, (1, 1): 0.3}), {"protocol": "A"}, scale=100)
    assert (both.value, both.n) == (pytest.approx(20), 2)
    # Two draws of two folds: folds and seeds of a draw are averaged first.
    draws = results_of({(r, s): r for r in range(4) for s in range(2)})
    found = mean(draws, {"method": "m"}, over=("protocol", "repeat"), folds=2)
    assert (found.value, found.n) == (1.5, 2)
    assert found.spread == pytest.approx(np.std([0.5, 2.5], ddof=1))
    assert mean(draws, {"protocol": "B"}) is None


@pytest.mark.parametrize("name", ["openauc-table4", "class-imbalance-table1"])
def test_every_published_number_has_a_place(name):
    options, shown, said = ITEMS[name].options, set(), set()
    common = ("rows", "columns", "row", "title", "beside")
    for one in options["tables"]:
        spec = {key: options[key] for key in common if key in options} | one
        shown |= {entry for row in laid_out([], **spec).rows for entry in row[1:]}
        paper = reproduce.published(spec["beside"])
        said |= {entry for row in paper.values() for entry in row.values()}
    assert said <= shown
