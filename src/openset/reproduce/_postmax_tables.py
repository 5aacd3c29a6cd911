"""Tables 1 to 4 of the PostMax paper, and the metrics of its supplement."""

from collections.abc import Mapping

from openset.reproduce._item import Content, Settings
from openset.reproduce._operational import METHODS, Network, joined, mean, networks
from openset.reproduce._postmax_measures import (
    METRICS,
    Value,
    auoscr,
    best_method,
    choose_threshold,
    kinds_to_test,
    on_five_splits,
    oosa,
    ranking,
)
from openset.reproduce._published import Published, published
from openset.reproduce._table import Entry, Measured, Table


def table1(settings: Settings) -> Content:
    """Compute OOSA on five test splits; threshold from validation and surrogate."""
    name = "postmax-table1"
    found = _main_table(settings, {"OOSA": oosa}, {"OOSA": published(name)})
    return _with_published(found, name)


def table2(settings: Settings) -> Content:
    """Compute AUROC and FPR95 on five test splits."""
    names = {"AUROC": "postmax-table2-auroc", "FPR95": "postmax-table2-fpr95"}
    values = {name: ranking(METRICS[name]) for name in names}
    papers = {name: published(file) for name, file in names.items()}
    return _with_published(_main_table(settings, values, papers), *names.values())


def more_metrics(settings: Settings) -> Content:
    """Compute AUOSCR and OpenAUC, which the paper has in its supplement."""
    values = {"AUOSCR": auoscr, "OpenAUC": ranking("openauc")}
    return _main_table(settings, values, {})


def table3(settings: Settings) -> Content:
    """Compute OOSA with the sets for validation and test exchanged."""
    return _swapped(settings, {"OOSA": oosa}, {"OOSA": "postmax-table3"})


def table4(settings: Settings) -> Content:
    """Compute AUROC and FPR95 on the sets of Table 3."""
    names = {"AUROC": "postmax-table4-auroc", "FPR95": "postmax-table4-fpr95"}
    return _swapped(settings, {n: ranking(METRICS[n]) for n in names}, names)


def _main_table(
    settings: Settings, values: Mapping[str, Value], papers: Mapping[str, Published]
) -> Content:
    """Return one table per network and metric: rows are unknowns, columns methods."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        for name, value in values.items():
            chosen = {m[0]: choose_threshold(network, m) for m in methods}
            kinds = kinds_to_test(network, without=network.hard)
            rows = {
                kind: {
                    m[0]: Measured.of(
                        on_five_splits(network, m, kind, value, chosen[m[0]])
                    )
                    for m in methods
                }
                for kind in kinds
            }
            tables.append(_table(network, name, rows, papers.get(name)))
    return Content(tables=tuple(tables), notes=_notes(settings))


def _swapped(
    settings: Settings, values: Mapping[str, Value], names: Mapping[str, str]
) -> Content:
    """Exchange the sets: the threshold is chosen on what was the test set."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        chosen = {
            m[0]: choose_threshold(network, m, known="test", kind=network.easy)
            for m in methods
        }
        for name, value in values.items():
            rows = {
                kind: {
                    m[0]: Measured(
                        value(
                            joined(
                                network.scores(*m, "validation"),
                                network.scores(*m, f"unknown/{kind}"),
                            ),
                            chosen[m[0]],
                        )
                    )
                    for m in methods
                }
                for kind in kinds_to_test(network, without=network.easy)
            }
            made = _table(network, name, rows, published(names[name]))
            if name == "OOSA":
                title = made.title.replace(network.hard, network.easy)
                made = Table(title=title, columns=made.columns, rows=made.rows)
            tables.append(made)
    return _with_published(Content(tables=tuple(tables)), *names.values())


def _table(
    network: Network,
    name: str,
    rows: Mapping[str, Mapping[str, Measured]],
    paper: Published | None,
) -> Table:
    """Lay out one table; a network of the paper has its published numbers beside."""
    is_of_paper = paper is not None and any(
        row.startswith(f"{network.title} · ") for row in paper.rows
    )
    made: list[tuple[Entry, ...]] = []
    for kind, of in rows.items():
        ours: list[Entry] = [of.get(title) for title in METHODS]
        if is_of_paper and paper is not None:
            said = paper.values.get(f"{network.title} · {kind}", {})
            pairs = zip([said.get(title) for title in METHODS], ours, strict=True)
            ours = [entry for pair in pairs for entry in pair]
        made.append((_count(network, kind), *ours, best_method(of, name)))
    if len(rows) > 1 and not is_of_paper:
        means = {
            title: Measured(mean([of[title].value for of in rows.values()]))
            for title in next(iter(rows.values()))
        }
        entries = [means.get(title) for title in METHODS]
        made.append(("mean", *entries, best_method(means, name)))
    heads = list(METHODS)
    if is_of_paper:
        heads = [f"{title}{side}" for title in METHODS for side in (", paper", "")]
    return Table(
        title=f"{name}, {network.title}; threshold chosen with {network.hard}"
        if name == "OOSA"
        else f"{name}, {network.title}",
        columns=("unknowns", *heads, "best"),
        rows=tuple(made),
    )


def _count(network: Network, kind: str) -> str:
    return f"{kind} ({len(network.part(f'unknown/{kind}')):,})"


def _notes(settings: Settings) -> tuple[str, ...]:
    found = networks(settings)
    counts = [
        f"{n.title}: {len(n.part('train')):,} training samples, "
        f"{len(n.part('validation')):,} for validation, {len(n.part('test')):,} to "
        "test on in five splits."
        for n in found
    ]
    missing = [n.title for n in found if "SCALE" not in dict(n.methods(METHODS))]
    if missing:
        counts.append(
            "SCALE is not defined for features with negative entries: "
            f"{', '.join(missing)}."
        )
    return tuple(counts)


def _with_published(content: Content, *names: str) -> Content:
    tables = (*_published_tables(*names), *content.tables)
    return Content(tables=tables, figures=content.figures, notes=content.notes)


def _published_tables(*names: str) -> tuple[Table, ...]:
    tables = []
    for name in names:
        paper = published(name)
        tables.append(
            Table(
                title=f"Published: {paper.unit}",
                columns=("network · unknowns", *paper.columns),
                rows=tuple(
                    (row, *(of[column].value for column in paper.columns))
                    for row, of in paper.values.items()
                ),
            )
        )
    return tuple(tables)
