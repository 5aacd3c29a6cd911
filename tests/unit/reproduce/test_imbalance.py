"""Items of the class-imbalance paper."""

import re

import numpy as np
import pytest

from openset import bench, metrics, reproduce, runs
from openset.reproduce import Settings, _imbalance_study, figures
from openset.reproduce._study import study_text

SMALL = study_text("class-imbalance-small")


def test_the_worked_example_has_the_matrices_of_figures_3_and_4():
    scores = figures.worked_example()
    matrix = metrics.confusion(scores, 0.5).matrix
    assert matrix.tolist() == [
        [10, 3, 0, 2, 1],
        [1, 12, 0, 0, 2],
        [0, 0, 9, 1, 5],
        [1, 1, 0, 10, 3],
        [2, 1, 2, 0, 10],
    ]
    closed = metrics.confusion(scores, -np.inf).matrix[:4, :4]
    assert closed.tolist() == [
        [11, 3, 0, 2],
        [3, 12, 0, 0],
        [0, 0, 13, 2],
        [4, 1, 0, 10],
    ]


@pytest.mark.parametrize("name", ["class-imbalance-fig1", "class-imbalance-fig2",
                                  "class-imbalance-fig3"])  # fmt: skip
def test_figures_without_data_are_drawn(name, tmp_path):
    made = reproduce.run(name, Settings(out=tmp_path))
    assert all((tmp_path / figure).stat().st_size > 0 for figure in made.figures)
    assert len(made.figures) == 1


def images(path, seed):
    """Write a data set of ten classes, told apart by their brightness."""
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(10), 16)
    shade = 10 + 24 * labels[:, None, None, None]
    noise = rng.integers(0, 12, (160, 32, 32, 3))
    np.savez(path, inputs=(shade + noise).astype(np.uint8), labels=labels)


def tiny(tmp_path):
    """Return the small study on made-up images, with two epochs."""
    images(tmp_path / "known.npz", 0)
    images(tmp_path / "other.npz", 1)
    text = SMALL.replace(b"data: cifar10", b"data: known.npz")
    text = text.replace(b"unknown_data: svhn", b"unknown_data: other.npz")
    text = re.sub(rb"epochs: \d+", b"epochs: 2", text)
    text = re.sub(rb"max_train: \d+, max_test: \d+", b"max_test: 100", text)
    path = tmp_path / "study.yaml"
    path.write_bytes(text)
    return path


def test_the_study_runs_and_fills_table_1_and_figure_6(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    path = tiny(out)  # paths in a study start at its file
    monkeypatch.setattr(
        "openset.reproduce._study.study_text", lambda name: path.read_bytes()
    )
    settings = Settings(out=out, backend="sequential")
    made = reproduce.run("class-imbalance-small", settings)
    inner, outer, half, overall, by_definition = made.tables
    assert [table.title for table in (inner, outer, half, overall)] == [
        "Inner score", "Outer score", "Halfpoint score", "Overall score",
    ]  # fmt: skip
    assert [row[0] for row in inner.rows] == [
        "0.142 (7, 5)", "0.147 (4, 3)", "0.202 (7, 8)", "0.220 (7, 9)", "0.423 (2, 8)",
    ]  # fmt: skip
    for table in (inner, outer, half, overall):
        assert all(entry is not None for row in table.rows for entry in row)
    # Each number is the mean of both folds of the one draw.
    cells = runs.read_cells(out / "study")
    mine = ("0.142 (7, 5)", "tsoftmax", "published")
    folds = [
        cell.results().where(metric="inner_score").column("value")[0]
        for cell in cells
        if tuple(cell.key[k] for k in ("protocol", "method", "detector")) == mine
    ]
    assert len(folds) == 2
    assert inner.rows[0][2].value == pytest.approx(np.mean(folds))
    assert inner.rows[0][2].n == 1
    # Table 1 averages over K + 1 classes, the definition over K.
    for of_paper, of_definition in zip(half.rows, by_definition.rows, strict=True):
        k = int(of_paper[0].partition("(")[2][0])
        for i in range(4):
            ours, definition = of_paper[2 + 2 * i].value, of_definition[1 + i].value
            assert ours == pytest.approx(definition * k / (k + 1))
    assert made.figures == ("class-imbalance-small-fig6.png",)
    again = reproduce.run("class-imbalance-small", settings)
    assert again.tables == made.tables
    assert [c.provenance for c in runs.read_cells(out / "study")] == [
        c.provenance for c in cells
    ]  # nothing was trained again


def test_the_papers_study_has_its_size():
    made = bench.plan(bench.parse(study_text("class-imbalance-table1"), "s.yaml"))
    # 5 pairs x 5 draws x 2 folds x 3 networks, which the 4 methods need.
    assert len(made.networks()) == 150
    (model,) = made.study.models
    assert model.params["epochs"] == 128
    pairs = [(entry.known, entry.unknown) for entry in made.study.protocols]
    assert pairs == [(7, 5), (4, 3), (7, 8), (7, 9), (2, 8)]


def test_both_studies_name_the_rows_of_the_paper():
    paper = reproduce.published("class-imbalance-table1")
    said = [row.partition(", ")[2] for row in paper.rows if row.startswith("Inner")]
    for name in ("class-imbalance-table1", "class-imbalance-small"):
        study = bench.parse(study_text(name), "s.yaml")
        assert [entry.title for entry in study.protocols] == said
        assert {entry.folds for entry in study.protocols} == {_imbalance_study._FOLDS}
    assert list(_imbalance_study._METHODS) == list(paper.columns)
