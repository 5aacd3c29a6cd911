"""Table 1 and Fig. 6 of the class-imbalance paper: the full study, and a small one."""

from collections.abc import Mapping, Sequence
from typing import Any

from openset import report, runs
from openset.reproduce._item import Content, Settings
from openset.reproduce._published import published
from openset.reproduce._study import run_study
from openset.reproduce._table import Entry, Measured, Table
from openset.results import Results

# Columns of the paper: training method and what rejects samples.
_METHODS = {
    "Thresholded Softmax": ("tsoftmax", "published"),
    "Openmax": ("tsoftmax", "openmax"),
    "Noise Softmax": ("noise", "published"),
    "Overlay Softmax": ("overlay", "published"),
}
_SCORES = {
    "Inner": "inner_score",
    "Outer": "outer_score",
    "Halfpoint": "halfpoint_k_plus_1",
    "Overall": "overall_score",
}
SMALL = "class-imbalance-small"
_FOLDS = 2  # of each draw, in both studies
_CURVES = ("inner_score", "outer_score", "halfpoint_k_plus_1", "overall_score")


def table1(name: str, settings: Settings) -> Content:
    """Run the study of the paper, or the small one."""
    done = run_study(name, settings)
    tables = [
        score_table(done.results, score, metric) for score, metric in _SCORES.items()
    ]
    tables.append(_by_definition(done.results))
    notes = [done.note]
    if name == SMALL:
        notes.append(
            "One draw, 1,000 training images and 10 epochs at a larger rate: what is "
            "compared with the paper is that everything runs, not the numbers."
        )
    return Content(
        tables=tuple(tables),
        figures={f"{name}-fig6": _figure6(runs.read_cells(done.folder))},
        notes=tuple(notes),
    )


def score_table(results: Results, score: str, metric: str) -> Table:
    """Return one score over openness: published values next to ours."""
    paper = published("class-imbalance-table1")
    rows: list[tuple[Entry, ...]] = []
    for row in paper.rows:
        name, _, pair = row.partition(", ")
        if name == score:
            entries: list[Entry] = []
            for method in _METHODS:
                entries += [paper.values[row][method], _mean(results, pair, method,
                                                            metric)]  # fmt: skip
            rows.append((pair, *entries))
    heads = [f"{method}{side}" for method in _METHODS for side in (", paper", "")]
    note = "As in the paper, a mean over K + 1 classes." if score == "Halfpoint" else ""
    return Table(
        title=f"{score} score",
        columns=("openness (K, U)", *heads),
        rows=tuple(rows),
        note=note,
    )


def _mean(results: Results, pair: str, method: str, metric: str) -> Measured | None:
    """Return mean and spread over draws of the classes; folds are averaged first."""
    trained, detector = _METHODS[method]
    found = results.where(
        protocol=pair, method=trained, detector=detector, metric=metric
    )
    of_draw: dict[int, list[float]] = {}
    for row in found:
        of_draw.setdefault(row.repeat // _FOLDS, []).append(row.value)
    means = [Measured.of(values).value for values in of_draw.values()]
    return Measured.of(means) if means else None


def _by_definition(results: Results) -> Table:
    pairs = list(dict.fromkeys(row.protocol for row in results))
    return Table(
        title="Halfpoint score by its definition, a mean over the K known classes",
        columns=("openness (K, U)", *_METHODS),
        rows=tuple(
            (pair, *(_mean(results, pair, m, "halfpoint_score") for m in _METHODS))
            for pair in sorted(pairs)
        ),
    )


def _figure6(cells: Sequence[Any]) -> report.Display:
    """Draw the four scores over epochs, averaged over all problems."""
    curves: dict[str, list[Sequence[Mapping[str, float]]]] = {}
    for name, key in _METHODS.items():
        for cell in cells:
            # A curve belongs to the network; OpenMax has none of its own.
            is_own = (cell.key["method"], cell.key["detector"]) == key
            if is_own and key[1] == "published" and cell.curve:
                curves.setdefault(name, []).append(cell.curve)
    return report.learning_curves(curves, metrics=_CURVES)
