"""Items that are studies: run by `openset.bench`, laid out as the papers do."""

import importlib.resources
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openset import _io, bench, datasets, report, runs
from openset.reproduce.item import (
    Content,
    Measured,
    Settings,
    Table,
    published,
)
from openset.results import Result, Results
from openset.scores import Scores


def study_text(name: str) -> bytes:
    """Return the study file ``studies/NAME.yaml`` of this package."""
    files = importlib.resources.files("openset.reproduce") / "studies"
    return (files / f"{name}.yaml").read_bytes()


def run_study(settings: Settings) -> tuple[Results, list[runs.Cell], str]:
    """Run the studies of an item, each in a folder of its own; finished cells stay.

    Returns the results and cells of all of them, and a sentence about the cells. The
    study file is copied, so that ``openset bench`` can run it as well.
    """
    item = settings.item
    for name in item.sets:  # before anything is trained
        try:
            datasets.load(name, settings.root)
        except Exception as error:
            needs = f"{item.name} needs the data sets {', '.join(item.sets)}"
            error.add_note(f"{needs}. openset datasets says how to get them")
            raise
    rows: list[Result] = []
    cells: list[runs.Cell] = []
    notes = []
    for name in item.options["studies"]:
        path = settings.out / f"{name}.yaml"
        _io.put(path, study_text(name))
        folder = settings.out / name
        done = bench.run(path, folder, root=settings.root, **settings.running)
        failed = f", {len(done.failed)} failed" if done.failed else ""
        notes.append(f"{name}: {done.n_cells} cells{failed}.")
        rows += runs.results(folder)
        cells += runs.read_cells(folder)
    return Results(rows), cells, " ".join(notes)


Where = Mapping[str, str]
"""Columns of results and the values wanted: a cell of a table is their mean."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How results become tables: what is averaged, and shown beside which numbers."""

    results: Results
    paper: Mapping[str, Mapping[str, Measured]] = field(default_factory=dict)
    scale: int = 1  # 100: percent
    digits: int = 3
    folds: int = 0  # of a draw of classes: they are averaged first; 0: no draws

    def mean(self, where: Where) -> Measured | None:
        """Return mean and spread of what matches, over draws or single networks."""
        runs_of: dict[tuple[str, int, int], list[float]] = {}
        for row in self.results:
            found = {key: getattr(row, key) for key in where}
            if found.get("protocol") != where.get("protocol"):
                # Splits of one data set are protocols of their own: "MNIST, split 0".
                found["protocol"] = row.protocol.partition(", split ")[0]
            if found == where:
                repeat = row.repeat // self.folds if self.folds else row.repeat
                key = row.protocol, repeat, 0 if self.folds else row.seed
                runs_of.setdefault(key, []).append(row.value)
        means = [Measured.of(values).value * self.scale for values in runs_of.values()]
        return Measured.of(means) if means else None

    def table(
        self,
        title: str,
        rows: Iterable[tuple[str, str, Where]],
        columns: Mapping[str, tuple[str, Where]],
        *,
        head: str = "method",
        note: str = "",
    ) -> Table:
        """Lay out a table: each column beside its published one, if it names one.

        A row has a title, its name in the paper and what it shows; a column the same.
        """
        lines = [
            [
                title_of_row,
                *(
                    entry
                    for name, of_column in columns.values()
                    for entry in (
                        *([self.paper[in_paper][name]] if name else []),
                        *([self.mean({**of_row, **of_column})] if of_column else []),
                    )
                ),
            ]
            for title_of_row, in_paper, of_row in rows
        ]
        heads = [
            one
            for column, (name, of_column) in columns.items()
            for one in (
                *([f"{column}, paper" if of_column else column] if name else []),
                *([column] if of_column else []),
            )
        ]
        return Table(
            title=title,
            columns=(head, *heads),
            rows=lines,
            digits=self.digits,
            note=note,
        )


def _methods(
    results: Results, paper: Iterable[str], **where: str
) -> Iterator[tuple[str, str, Where]]:
    """Yield the training methods of each row of a paper, in its order."""
    titles = {"CE+": "ceplus", "Ours": "openauc"}
    trained = dict.fromkeys(row.method for row in results)
    for row in paper:
        name = titles.get(row, row.lower())
        for cut in ("+auc", "+cs"):
            name = name.replace(cut, f"_{cut[1:]}")
        # "openauc paper" and "openauc released" are two forms of one method.
        some = (method for method in trained if method.partition(" ")[0] == name)
        yield from ((method, row, {"method": method, **where}) for method in some)


def table2(settings: Settings) -> Content:
    """Lay out OpenAUC of every method by three scores, one table per data set."""
    results, _, note = run_study(settings)
    paper = published("openauc-table2")
    layout = Layout(results=results, paper=paper, scale=100, digits=1)
    scores = {"its own score": "published", "max logit": "maxlogit"}
    scores["max probability"] = "msp"
    tables = [
        layout.table(
            f"OpenAUC on {data}, percent",
            _methods(results, paper, protocol=data),
            {"paper": (data, {})}
            | {
                head: ("", {"detector": score, "metric": "openauc"})
                for head, score in scores.items()
            }
            | {"accuracy": ("", {"detector": "published", "metric": "accuracy"})},
            note="Mean ± standard deviation over splits and seeds.",
        )
        for data in settings.item.options["data"]
    ]
    return Content(tables=tables, notes=[note])


_CUB = {
    "openauc-table4": {"AUC": "auroc", "OpenAUC": "openauc"},
    "openauc-table5": {
        "Error@95%TPR": "error_at_tpr_unknown_pooled",
        "macro F": "f_score_best",
        "micro F": "f_score_micro_best",
    },
}


def table4(settings: Settings) -> Content:
    """Lay out CUB: accuracy of all methods, and five metrics at three levels."""
    results, _, note = run_study(settings)
    paper = published("openauc-table4")
    tables = [
        Layout(results=results, paper=paper, scale=100, digits=1).table(
            "Table 4: CUB, closed-set accuracy, percent",
            _methods(results, paper),
            {"accuracy": ("accuracy", {"metric": "accuracy"})},
            note="All levels have the same known classes; ours is over three networks.",
        )
    ]
    for name, metrics in _CUB.items():
        paper = published(name)
        columns = {
            f"{title} {level}": (
                f"{title} {level}",
                {"metric": metric, "protocol": level},
            )
            for title, metric in metrics.items()
            for level in ("Easy", "Medium", "Hard")
        }
        layout = Layout(results=results, paper=paper, scale=100, digits=1)
        title = f"Table {name[-1]}: CUB, percent"
        tables.append(layout.table(title, _methods(results, paper), columns))
    oracle = "F-scores are at the best threshold of the test data, as in the paper."
    return Content(tables=tables, notes=[note, oracle])


def figure1(settings: Settings) -> Content:
    """Draw metrics of CE+ over the share of unknowns rejected."""
    _, cells, note = run_study(settings)
    (study,) = settings.item.options["studies"]
    scores = {
        cell.key["protocol"]: Scores.load(
            settings.out / study / "scores" / f"{cell.id}.npz"
        )
        for cell in cells
    }
    names = ("f_score", "youden", "normalized_accuracy", "osa")
    shown = report.metric_against_unknown_tpr(scores, metrics=names, alpha="counts")
    table = Table(
        title="Where each metric is best",
        columns=("data", "metric", "best value", "unknowns rejected there"),
        rows=[
            (data, metric, float(value), float(at))
            for data, metric, _, value, at in shown.brief.rows
        ],
        note="The paper prints no numbers. Its text says that all metrics fall rapidly "
        "as more unknowns are rejected.",
    )
    return Content(tables=[table], figures={settings.item.name: shown}, notes=[note])


def figure2(settings: Settings) -> Content:
    """Draw OpenAUC over λ."""
    results, _, note = run_study(settings)
    scores = {"published": "its own score", "maxlogit": "max logit"}
    lines: dict[str, dict[float, list[float]]] = {}
    for row in results.where(metric="openauc"):
        line = lines.setdefault(f"{row.protocol}, {scores[row.detector]}", {})
        line.setdefault(float(row.method), []).append(row.value)
    table = Table(
        title="OpenAUC over λ, percent",
        columns=("λ", *lines),
        rows=[
            [
                f"{weight:g}",
                *(
                    Measured.of([100 * v for v in line[weight]])
                    for line in lines.values()
                ),
            ]
            for weight in sorted({weight for line in lines.values() for weight in line})
        ],
        digits=1,
        note="The paper prints no numbers. Its text says that 0.1 or 0.2 is best, and "
        "that every λ helps.",
    )
    shown = report.sensitivity(lines)
    return Content(tables=[table], figures={settings.item.name: shown}, notes=[note])


_IMBALANCE: Mapping[str, Where] = {
    "Thresholded Softmax": {"method": "tsoftmax", "detector": "published"},
    "Openmax": {"method": "tsoftmax", "detector": "openmax"},
    "Noise Softmax": {"method": "noise", "detector": "published"},
    "Overlay Softmax": {"method": "overlay", "detector": "published"},
}
_SCORES = {
    "Inner": "inner_score",
    "Outer": "outer_score",
    "Halfpoint": "halfpoint_k_plus_1",
    "Overall": "overall_score",
}


def imbalance_table1(settings: Settings) -> Content:
    """Lay out four scores over openness, beside the paper; draw them over epochs."""
    results, cells, note = run_study(settings)
    layout = Layout(results=results, paper=published("class-imbalance-table1"), folds=2)
    pairs = sorted({row.protocol for row in results})
    head = "openness (K, U)"
    tables = [
        layout.table(
            f"{score} score",
            [(pair, f"{score}, {pair}", {"protocol": pair}) for pair in pairs],
            {m: (m, {**where, "metric": metric}) for m, where in _IMBALANCE.items()},
            head=head,
            note="A mean over K + 1 classes, as in the paper." * (score == "Halfpoint"),
        )
        for score, metric in _SCORES.items()
    ]
    by_definition = layout.table(
        "Halfpoint score by its definition, a mean over the K known classes",
        [(pair, "", {"protocol": pair}) for pair in pairs],
        {m: ("", {**w, "metric": "halfpoint_score"}) for m, w in _IMBALANCE.items()},
        head=head,
    )
    figures = {f"{settings.item.name}-fig6": _learning_curves(cells)}
    return Content(tables=[*tables, by_definition], figures=figures, notes=[note])


def _learning_curves(cells: Iterable[runs.Cell]) -> Any:
    """Draw the four scores over epochs, averaged over all problems."""
    curves: dict[str, list[Sequence[Mapping[str, float]]]] = {}
    for name, where in _IMBALANCE.items():
        for cell in cells:
            # A curve belongs to the network; OpenMax has none of its own.
            is_own = {key: cell.key[key] for key in where} == where
            if is_own and where["detector"] == "published" and cell.curve:
                curves.setdefault(name, []).append(cell.curve)
    return report.learning_curves(curves, metrics=list(_SCORES.values()))
