"""Table 2, Fig. 1 and Fig. 2 of the OpenAUC paper: studies."""

from collections.abc import Mapping, Sequence

from openset import report, runs
from openset.reproduce._item import Content, Settings
from openset.reproduce._published import published
from openset.reproduce._study import run_study
from openset.reproduce._table import Entry, Measured, Table
from openset.results import Results

# Rows of the paper, by the titles of training methods in the studies.
_ARPL = {
    "Softmax": "softmax",
    "GCPL": "gcpl",
    "RPL": "rpl",
    "ARPL": "arpl",
    "ARPL+CS": "arpl_cs",
}
_CEPLUS = {
    "CE+": ("ceplus",),
    "Acc+AUC": ("acc_auc paper", "acc_auc released"),
    "Ours": ("openauc paper", "openauc released"),
}
_SCORES = {"published": "its own score", "maxlogit": "max logit",
           "msp": "max probability"}  # fmt: skip
_METRICS = ("f_score", "youden", "normalized_accuracy", "osa")


def table2_small(settings: Settings) -> Content:
    """Run all methods by one recipe, with tiny networks on MNIST."""
    done = run_study("openauc-table2-small", settings)
    rows = _rows(done.results, done.results)
    return Content(tables=(_table2("MNIST", "MNIST", rows),), notes=(done.note,))


def table2(name: str, columns: Mapping[str, str], settings: Settings) -> Content:
    """Run the studies NAME-arpl and NAME-ceplus; every method by three scores.

    `columns` maps data, the beginning of protocol names, to columns of the paper; ""
    where nothing is published.
    """
    first = run_study(f"{name}-arpl", settings, folder="arpl")
    second = run_study(f"{name}-ceplus", settings, folder="ceplus")
    rows = _rows(first.results, second.results)
    return Content(
        tables=tuple(_table2(*column, rows) for column in columns.items()),
        notes=(first.note, second.note),
    )


def _rows(first: Results, second: Results) -> list[tuple[str, str, Results]]:
    """List row of the paper, title of the method, and where its results are."""
    rows = [(name, title, first) for name, title in _ARPL.items()]
    rows += [(name, t, second) for name, titles in _CEPLUS.items() for t in titles]
    return rows


def _table2(data: str, column: str, rows: list[tuple[str, str, Results]]) -> Table:
    paper = published("openauc-table2").values
    lines: list[tuple[Entry, ...]] = []
    for name, title, results in rows:
        of_method = results.where(method=title)
        mine = Results(r for r in of_method if r.protocol.partition(",")[0] == data)
        lines.append(
            (
                title,
                paper[name][column] if column else None,
                *(
                    _percent(mine.where(detector=score, metric="openauc"))
                    for score in _SCORES
                ),
                _percent(mine.where(detector="published", metric="accuracy")),
            )
        )
    return Table(
        title=f"OpenAUC on {data}, percent",
        columns=("method", "paper", *_SCORES.values(), "accuracy"),
        rows=tuple(lines),
        digits=1,
        note="Mean ± standard deviation over splits and seeds.",
    )


def _percent(results: Results) -> Measured | None:
    values = [100 * value for value in results.column("value").tolist()]
    return Measured.of(values) if values else None


_LEVELS = ("Easy", "Medium", "Hard")
_TABLE4 = {"AUC": "auroc", "OpenAUC": "openauc"}
_TABLE5 = {
    "Error@95%TPR": "error_at_tpr_unknown_pooled",
    "macro F": "f_score_best",
    "micro F": "f_score_micro_best",
}


def tables4_and_5(settings: Settings) -> Content:
    """Run CUB by both recipes."""
    first = run_study("openauc-table4-arpl", settings, folder="arpl")
    second = run_study("openauc-table4-ceplus", settings, folder="ceplus")
    rows = [
        *((name, _ARPL[name], first.results) for name in ("Softmax", "GCPL", "RPL",
                                                          "ARPL")),
        ("CE+", "ceplus", second.results),
        ("ARPL+", "arpl+", second.results),
        ("Ours", "openauc paper", second.results),
        ("Ours", "openauc released", second.results),
    ]  # fmt: skip
    return Content(
        tables=(
            _accuracies(rows),
            _levels("Table 4: CUB, percent", "openauc-table4", _TABLE4, rows),
            _levels("Table 5: CUB, percent", "openauc-table5", _TABLE5, rows),
        ),
        notes=(
            first.note,
            second.note,
            "F-scores are at the best threshold of the test data, as in the paper: "
            "oracles.",
        ),
    )


def _accuracies(rows: Sequence[tuple[str, str, Results]]) -> Table:
    paper = published("openauc-table4").values
    return Table(
        title="Table 4: CUB, closed-set accuracy, percent",
        columns=("method", "paper", "ours"),
        rows=tuple(
            (
                method,
                paper[row]["accuracy"],
                _percent(results.where(method=method, metric="accuracy")),
            )
            for row, method, results in rows
        ),
        digits=1,
        note="All levels have the same known classes; ours is over three networks.",
    )


def _levels(
    title: str,
    name: str,
    columns: Mapping[str, str],
    rows: Sequence[tuple[str, str, Results]],
) -> Table:
    paper = published(name).values
    heads = [f"{column} {level}" for column in columns for level in _LEVELS]
    lines: list[tuple[Entry, ...]] = []
    for row, method, results in rows:
        entries: list[Entry] = []
        for column, metric in columns.items():
            for level in _LEVELS:
                mine = results.where(protocol=level, method=method, metric=metric)
                entries += [paper[row][f"{column} {level}"], _percent(mine)]
        lines.append((method, *entries))
    return Table(
        title=title,
        columns=("method", *(f"{h}{s}" for h in heads for s in (", paper", ""))),
        rows=tuple(lines),
        digits=1,
    )


def figure1(name: str, settings: Settings) -> Content:
    """Draw metrics of CE+ over the share of unknowns rejected."""
    done = run_study(name, settings)
    scores = {
        cell.key["protocol"]: runs.read_scores(
            done.folder / "scores" / f"{cell.id}.npz"
        )
        for cell in runs.read_cells(done.folder)
    }
    shown = report.metric_against_unknown_tpr(scores, metrics=_METRICS, alpha="counts")
    rows: list[tuple[Entry, ...]] = [
        (data, metric, float(value), float(at))
        for data, metric, _, value, at in shown.brief.rows
    ]
    return Content(
        tables=(
            Table(
                title="Where each metric is best",
                columns=("data", "metric", "best value", "unknowns rejected there"),
                rows=tuple(rows),
                note="The paper prints no numbers. Its text says that all metrics fall "
                "rapidly as more unknowns are rejected.",
            ),
        ),
        figures={name: shown},
        notes=(done.note,),
    )


def figure2(name: str, settings: Settings) -> Content:
    """Draw OpenAUC over λ."""
    done = run_study(name, settings)
    values: dict[str, dict[float, list[float]]] = {}
    for row in done.results.where(metric="openauc"):
        line = values.setdefault(f"{row.protocol}, {_SCORES[row.detector]}", {})
        line.setdefault(float(row.method), []).append(row.value)
    shown = report.sensitivity(values)
    weights = sorted({weight for line in values.values() for weight in line})
    rows: list[tuple[Entry, ...]] = [
        (
            f"{weight:g}",
            *(
                Measured.of([100 * one for one in line[weight]])
                for line in values.values()
            ),
        )
        for weight in weights
    ]
    return Content(
        tables=(
            Table(
                title="OpenAUC over λ, percent",
                columns=("λ", *values),
                rows=tuple(rows),
                digits=1,
                note="The paper prints no numbers. Its text says that 0.1 or 0.2 is "
                "best, and that every λ helps.",
            ),
        ),
        figures={name: shown},
        notes=(done.note,),
    )
