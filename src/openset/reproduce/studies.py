"""Items that are studies: run by `openset.bench`, laid out as the papers do."""

import importlib.resources
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from openset import _io, bench, datasets, report, runs
from openset.reproduce.item import Content, Entry, Measured, Settings, Table, published
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


def mean(
    results: Iterable[Result],
    where: Mapping[str, str],
    *,
    over: Sequence[str] = ("protocol", "repeat", "seed"),
    folds: int = 1,
    scale: float = 1,
) -> Measured | None:
    """Return mean and spread of the results with these values in their columns.

    Those that agree in the columns `over` are averaged first; `folds` of a draw of
    classes are one repeat.
    """
    runs_of: dict[Hashable, list[float]] = {}
    for row in results:
        if all(getattr(row, column) == value for column, value in where.items()):
            run = {column: getattr(row, column) for column in over}
            if "repeat" in run:
                run["repeat"] //= folds
            runs_of.setdefault(tuple(run.values()), []).append(row.value)
    means = [Measured.of(values).value * scale for values in runs_of.values()]
    return Measured.of(means) if means else None


def laid_out(
    results: Iterable[Result],
    *,
    title: str,
    rows: Mapping[str, str],
    columns: Mapping[str, Mapping[str, str]],
    row: str = "method",
    where: Mapping[str, str] | None = None,
    beside: str = "",
    name: str = "",
    digits: int = 3,
    note: str = "",
    head: str = "method",
    with_mean: bool = False,
    **how: Any,
) -> Table:
    """Lay out results as a table, each column beside the published one.

    Parameters
    ----------
    rows
        Values of the column `row` of the results, each with its row of the paper.
    columns
        Values of other columns of the results, and as `paper` a column of the paper.
    where
        Values of other columns that all entries have.
    beside
        Published table, if there is one.
    name
        What ``{name}`` in titles and names of the paper stands for.
    with_mean
        Add a row with the mean over all rows, unless the paper's numbers are beside.
    how
        Options of :func:`mean`.
    """
    said = published(beside) if beside else {}
    entries = [said.get(one.format(name=name), {}) for one in rows.values()]
    titles, places = [*rows], [{row: one} for one in rows]
    if with_mean and not any(entries):
        titles, places = [*titles, "mean"], [*places, {}]
    listed: dict[str, list[Entry]] = {}
    for column, about in columns.items():
        own = {**about}
        of_paper = own.pop("paper", "").format(name=name)
        if any(of_paper in of_row for of_row in entries):
            title_of = f"{column}, paper" if own else column
            listed[title_of] = [of_row.get(of_paper) for of_row in entries]
        if own:
            wanted = {**(where or {})} | own
            listed[column] = [mean(results, wanted | one, **how) for one in places]
    return Table(
        title=title.format(name=name),
        columns=(head, *listed),
        rows=[list(line) for line in zip(titles, *listed.values(), strict=True)],
        digits=digits,
        note=note,
    )


def tables(settings: Settings) -> Content:
    """Run the studies of an item; lay out its tables; draw learning curves, if any."""
    results, cells, note = run_study(settings)
    own = ("like", "studies", "tables", "curves", "notes")
    options = settings.item.options
    common = {key: one for key, one in options.items() if key not in own}
    found = [laid_out(results, **common | one) for one in options["tables"]]
    figures = {}
    if named := options.get("curves"):
        metrics = [one["where"]["metric"] for one in options["tables"][:-1]]
        shown = report.learning_curves(_curves(cells, named), metrics=metrics)
        figures = {f"{settings.item.name}-fig6": shown}
    notes = [note, *options.get("notes", ())]
    return Content(tables=found, figures=figures, notes=notes)


def _curves(cells: Iterable[runs.Cell], methods: Mapping[str, str]) -> dict[str, Any]:
    """Return the curves of training by name: they belong to the network of a cell."""
    curves: dict[str, Any] = {}
    for name, method in methods.items():
        for cell in cells:
            is_own = (cell.key["method"], cell.key["detector"]) == (method, "published")
            if is_own and cell.curve:
                curves.setdefault(name, []).append(cell.curve)
    return curves


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
    found = ((row[0], row[1], *map(float, row[3:])) for row in shown.brief.rows)
    return settings.content([*found], figure=shown, note=note)


def figure2(settings: Settings) -> Content:
    """Draw OpenAUC over λ."""
    results, _, note = run_study(settings)
    (spec,) = settings.item.options["tables"]
    lines: dict[str, dict[float, list[float]]] = {name: {} for name in spec["columns"]}
    for name, where in spec["columns"].items():
        for row in results.where(**where):
            lines[name].setdefault(float(row.method), []).append(row.value)
    figures = {settings.item.name: report.sensitivity(lines)}
    return Content(tables=[laid_out(results, **spec)], figures=figures, notes=[note])
