"""The PostMax paper: Cruz et al., ECCV 2024.

Every item reads saved outputs of networks (:mod:`openset.reproduce._operational`), so
that the paper's own networks can be put in. Thresholds are chosen on validation and
surrogate samples only, with equal weight of known and unknown samples: in the paper
there are equally many. On the test samples, open-set accuracy weighs them by their
counts, as in the paper.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from openset import detectors, magnitudes, metrics, report, stats, thresholds
from openset.detectors import Detector
from openset.metrics import oscr_curve
from openset.outputs import Outputs
from openset.reproduce import _scale
from openset.reproduce._item import Content, Item, Settings
from openset.reproduce._operational import METHODS, Network, joined, mean, networks
from openset.reproduce._published import Published, published
from openset.reproduce._table import Entry, Measured, Table
from openset.results import Result, Results
from openset.scores import Scores
from openset.thresholds import Threshold
from openset.thresholds.alpha import Alpha

_PAPER = "PostMax"
_OURS = "PostMax"
_ALPHAS = (0.1, 0.25, 0.5, 0.75, 0.9)
_NORMS: Mapping[str, Detector] = {
    "L2, as published": detectors.PostMax(),
    "L1": detectors.PostMax(norm="l1"),
    "none": detectors.PostMax(norm="none"),
}
_METRICS = {"OOSA": "oosa", "AUROC": "auroc", "FPR95": "fpr_at_tpr"}
Value = Callable[[Scores, Threshold], float]
"""A number of test scores, and of the threshold chosen before."""


def _oosa(scores: Scores, threshold: Threshold, alpha: Alpha = "counts") -> float:
    return thresholds.operate(threshold, scores, alpha_test=alpha).oosa


def _ranking(key: str) -> Value:
    row = metrics.get(key)
    return lambda scores, threshold: row.value(scores)  # noqa: ARG005  # a Value


def _auoscr(scores: Scores, threshold: Threshold) -> float:  # noqa: ARG001
    curve = oscr_curve(scores)
    return float(np.trapezoid(curve.ccr, curve.fpr))


def _threshold(
    network: Network,
    method: tuple[str, Detector],
    *,
    known: str = "validation",
    kind: str | None = None,
    alpha: Alpha = 0.5,
) -> Threshold:
    """Choose a threshold on known samples and on surrogate unknowns of one kind."""
    part = network.surrogate(network.hard if kind is None else kind)
    calibration = joined(network.scores(*method, known), network.scores(*method, part))
    return thresholds.osa(calibration, alpha=alpha)


def _five(
    network: Network,
    method: tuple[str, Detector],
    kind: str,
    value: Value,
    threshold: Threshold,
) -> list[float]:
    """Return a number on each of the five test splits, with all unknowns of a kind."""
    known = network.scores(*method, "test")
    unknown = network.scores(*method, f"unknown/{kind}")
    return [
        value(joined(known.take(rows), unknown), threshold) for rows in network.splits()
    ]


def _tested(network: Network, *, without: str) -> list[str]:
    """Return the kinds of test unknowns that no threshold was chosen with."""
    return [kind for kind in network.unknowns if kind != without]


def _count(network: Network, kind: str) -> str:
    return f"{kind} ({len(network.part(f'unknown/{kind}')):,})"


def _main_table(
    settings: Settings, values: Mapping[str, Value], papers: Mapping[str, Published]
) -> Content:
    """Return one table per network and metric: rows are unknowns, columns methods."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        for name, value in values.items():
            chosen = {m[0]: _threshold(network, m) for m in methods}
            kinds = _tested(network, without=network.hard)
            rows = {
                kind: {
                    m[0]: Measured.of(_five(network, m, kind, value, chosen[m[0]]))
                    for m in methods
                }
                for kind in kinds
            }
            tables.append(_table(network, name, rows, papers.get(name)))
    return Content(tables=tuple(tables), notes=_notes(settings))


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
        made.append((_count(network, kind), *ours, _best(of, name)))
    if len(rows) > 1 and not is_of_paper:
        means = {
            title: Measured(mean([of[title].value for of in rows.values()]))
            for title in next(iter(rows.values()))
        }
        entries = [means.get(title) for title in METHODS]
        made.append(("mean", *entries, _best(means, name)))
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


def _best(of: Mapping[str, Measured], name: str) -> str:
    sign = -1 if name == "FPR95" else 1
    return max(of, key=lambda title: sign * of[title].value)


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


def _with_published(content: Content, *names: str) -> Content:
    tables = (*_published_tables(*names), *content.tables)
    return Content(tables=tables, figures=content.figures, notes=content.notes)


def table1(settings: Settings) -> Content:
    """Compute OOSA on five test splits; threshold from validation and surrogate."""
    name = "postmax-table1"
    found = _main_table(settings, {"OOSA": _oosa}, {"OOSA": published(name)})
    return _with_published(found, name)


def table2(settings: Settings) -> Content:
    """Compute AUROC and FPR95 on five test splits."""
    names = {"AUROC": "postmax-table2-auroc", "FPR95": "postmax-table2-fpr95"}
    values = {name: _ranking(_METRICS[name]) for name in names}
    papers = {name: published(file) for name, file in names.items()}
    return _with_published(_main_table(settings, values, papers), *names.values())


def more_metrics(settings: Settings) -> Content:
    """Compute AUOSCR and OpenAUC, which the paper has in its supplement."""
    values = {"AUOSCR": _auoscr, "OpenAUC": _ranking("openauc")}
    return _main_table(settings, values, {})


def _swapped(
    settings: Settings, values: Mapping[str, Value], names: Mapping[str, str]
) -> Content:
    """Exchange the sets: the threshold is chosen on what was the test set."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        chosen = {
            m[0]: _threshold(network, m, known="test", kind=network.easy)
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
                for kind in _tested(network, without=network.easy)
            }
            made = _table(network, name, rows, published(names[name]))
            if name == "OOSA":
                title = made.title.replace(network.hard, network.easy)
                made = Table(title=title, columns=made.columns, rows=made.rows)
            tables.append(made)
    return _with_published(Content(tables=tuple(tables)), *names.values())


def table3(settings: Settings) -> Content:
    """Compute OOSA with the sets for validation and test exchanged."""
    return _swapped(settings, {"OOSA": _oosa}, {"OOSA": "postmax-table3"})


def table4(settings: Settings) -> Content:
    """Compute AUROC and FPR95 on the sets of Table 3."""
    names = {"AUROC": "postmax-table4-auroc", "FPR95": "postmax-table4-fpr95"}
    return _swapped(settings, {n: _ranking(_METRICS[n]) for n in names}, names)


def tests(settings: Settings) -> Content:
    """Test PostMax against the others: paired t-tests with Bonferroni's correction."""
    rows = []
    for network in networks(settings):
        for m in network.methods(METHODS):
            chosen = _threshold(network, m)
            values = {n: _ranking(_METRICS[n]) for n in ("AUROC", "FPR95")}
            for name, value in ({"OOSA": _oosa} | values).items():
                rows += [
                    Result(
                        protocol=kind,
                        repeat=i,
                        model=network.title,
                        detector=m[0],
                        metric=_METRICS[name],
                        value=found,
                    )
                    for kind in _tested(network, without=network.hard)
                    for i, found in enumerate(_five(network, m, kind, value, chosen))
                ]
    results = Results(rows)
    results.save(settings.out / "runs.csv")
    found = _test_table(results)
    return Content(
        tables=(_printed_means(), found),
        notes=(
            "A positive difference favours PostMax (of FPR95 the sign is turned). "
            "p-values are of paired, two-sided t-tests over all runs, corrected by "
            "Bonferroni for all rows; kinds better and worse: those whose own test, "
            "corrected for the number of such tests, has p < 0.05.",
            "The five splits share network, detector, threshold and unknowns, and "
            "kinds of unknowns share the known samples: these tests say that a "
            "difference is not due to the choice of known test samples. They say "
            "nothing about other networks or other unknowns.",
        ),
    )


def _printed_means() -> Table:
    """Compare the improvements in the text of the paper with means of its tables."""
    text = published("postmax-tests")
    files = {
        "OOSA": "postmax-table1",
        "AUROC": "postmax-table2-auroc",
        "FPR95": "postmax-table2-fpr95",
    }
    rows: list[tuple[Entry, ...]] = []
    for row, said in text.values.items():
        network, _, name = row.partition(" · ")
        sign = -1 if name == "FPR95" else 1
        of = [
            values
            for where, values in published(files[name]).values.items()
            if where.startswith(f"{network} · ")
        ]
        gains = [
            100 * sign * mean([one[_OURS].value - one[other].value for one in of])
            for other in METHODS
            if other != _OURS
        ]
        ends = (said["smallest improvement"].value, said["largest improvement"].value)
        p = f"{said['p below'].value:.0e}"
        rows.append((row, *ends, p, min(gains), max(gains)))
    return Table(
        title="Published: improvements in the text of Section 4.2, in points, and the "
        "means of the printed tables",
        columns=(
            "network · metric",
            "smallest, text",
            "largest, text",
            "p below, text",
            "smallest, mean of the table",
            "largest, mean of the table",
        ),
        rows=tuple(rows),
        digits=1,
        note="The text agrees with Table 2 up to rounding, not with Table 1.",
    )


def _test_table(results: Results) -> Table:
    """Test PostMax against each method: kinds of unknowns pooled, and one by one."""
    titles = list(dict.fromkeys(row.model for row in results))
    pooled = _corrected(results, titles, pool=True)
    each = _corrected(results, titles, pool=False)
    rows: list[tuple[Entry, ...]] = []
    for (title, name, other), ((gain, n, p),) in pooled.items():
        kinds = each[title, name, other]
        sure = [one for one, _, chance in kinds if chance is not None and chance < 0.05]
        better = sum(one > 0 for one in sure)
        text = "–" if p is None else f"{p:.1g}"
        counts = (better, len(sure) - better, len(kinds))
        rows.append((title, name, other, gain, n, text, *counts))
    return Table(
        title="PostMax against the others, all kinds of unknowns pooled and one by one",
        columns=(
            "network",
            "metric",
            "against",
            "difference",
            "runs",
            "p",
            "kinds better",
            "kinds worse",
            "kinds",
        ),
        rows=tuple(rows),
    )


_Tests = dict[tuple[str, str, str], list[tuple[float, int, float | None]]]


def _corrected(results: Results, titles: Sequence[str], *, pool: bool) -> _Tests:
    """Return improvement, runs and corrected p-value of every test, by pair."""
    found = [
        (title, name, test)
        for name, key in _METRICS.items()
        for title in titles
        for test in stats.compare_runs(
            results.where(model=title, metric=key),
            key,
            against=_OURS,
            correction="none",
            pool=pool,
        )
    ]
    tested = [test.p_value for _, _, test in found if test.p_value is not None]
    corrected = iter(stats.adjust(tested, "bonferroni"))
    made: _Tests = {}
    for title, name, test in found:
        gain = -test.difference if name == "FPR95" else test.difference
        p = None if test.p_value is None else next(corrected)
        made.setdefault((title, name, test.b), []).append((gain, test.n, p))
    return made


def figure1(settings: Settings) -> Content:
    """Draw OSA over URR with the operational and the best threshold."""
    rows: list[tuple[Entry, ...]] = []
    figures: dict[str, report.Display] = {}
    found_networks = networks(settings)
    drawn = max(found_networks, key=lambda one: one.part("test").n_classes or 0)
    for network in found_networks:
        kind = _hardest(network)
        shown = {}
        for m in network.methods(METHODS):
            unknown = network.scores(*m, f"unknown/{kind}")
            rows_of = network.splits()[0]
            test = joined(network.scores(*m, "test").take(rows_of), unknown)
            done = thresholds.operate(_threshold(network, m), test, alpha_test="counts")
            shown[m[0]] = done
            numbers = (done.oosa, done.oracle, done.gap, metrics.auroc(test))
            rows.append((network.title, kind, m[0], *numbers))
        if network is drawn:
            figures["postmax-fig1"] = report.osa_over_urr(shown)
    return Content(
        tables=(
            Table(
                title="Operational threshold and oracle: first test split, kind of "
                "unknowns with the lowest AUROC of MSP",
                columns=(
                    "network",
                    "unknowns",
                    "method",
                    "OOSA (star)",
                    "best OSA (diamond)",
                    "gap",
                    "AUROC",
                ),
                rows=tuple(rows),
            ),
        ),
        figures=figures,
    )


def _hardest(network: Network) -> str:
    """Return the kind of test unknowns with the lowest AUROC of MSP."""
    m = ("MSP", METHODS["MSP"])

    def auroc(kind: str) -> float:
        unknown = network.scores(*m, f"unknown/{kind}")
        return metrics.auroc(joined(network.scores(*m, "test"), unknown))

    return min(_tested(network, without=network.hard), key=auroc)


def figure2(settings: Settings) -> Content:
    """Measure feature magnitudes of known and unknown samples."""
    rows: list[tuple[Entry, ...]] = []
    figures: dict[str, report.Display] = {}
    found_networks = networks(settings)
    drawn = max(found_networks, key=lambda one: one.part("test").n_classes or 0)
    for network in found_networks:
        sets: dict[str, Outputs] = {"known": network.part("test")}
        sets |= {kind: network.part(f"unknown/{kind}") for kind in network.unknowns}
        found = magnitudes.measure(sets)
        shown = report.feature_magnitudes(found)
        for group, n, average, median, *others in shown.brief.rows:
            numbers = [None if entry == "–" else entry for entry in others]
            rows.append((network.title, group, n, average, median, *numbers))
        if network is drawn:
            figures["postmax-fig2"] = shown
    return Content(
        tables=(
            Table(
                title="Feature magnitudes (L2 norm), and what dividing by them does",
                columns=(
                    "network",
                    "group",
                    "samples",
                    "mean",
                    "median",
                    "share of pairs longer than known",
                    "AUROC, max logit",
                    "AUROC, max logit / magnitude",
                ),
                rows=tuple(rows),
            ),
        ),
        figures=figures,
    )


def alpha(settings: Settings) -> Content:
    """Vary α, the weight of the known samples, to choose and to report."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        kinds = _tested(network, without=network.hard)
        rows: list[tuple[Entry, ...]] = []
        for weight in (*_ALPHAS, "counts"):
            of = {}
            for m in methods:
                chosen = _threshold(network, m, alpha=weight)
                value = partial(_oosa, alpha=weight)
                found = [_five(network, m, kind, value, chosen) for kind in kinds]
                of[m[0]] = Measured.of([mean(split) for split in _by_split(found)])
            entries = [of.get(title) for title in METHODS]
            name = weight if isinstance(weight, str) else f"{weight:g}"
            rows.append((name, *entries, _best(of, "OOSA")))
        tables.append(
            Table(
                title=f"OOSA over α, {network.title}, mean of {len(kinds)} unknowns",
                columns=("α", *METHODS, "best"),
                rows=tuple(rows),
                note=_counts_note(network, kinds),
            )
        )
    return Content(
        tables=tuple(tables),
        notes=(
            "The same α to choose the threshold and to report. counts: each set's own "
            "share of known samples, which differs between the two.",
        ),
    )


def _counts_note(network: Network, kinds: Sequence[str]) -> str:
    n, hard = len(network.part("validation")), network.surrogate(network.hard)
    tested = int(network.splits()[0].sum())
    shares = [
        tested / (tested + len(network.part(f"unknown/{kind}"))) for kind in kinds
    ]
    return (
        f"By counts, α is {n / (n + len(network.part(hard))):.2f} to choose and "
        f"{min(shares):.2f} to {max(shares):.2f} to report."
    )


def _by_split(found: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    return list(zip(*found, strict=True))


def norm(settings: Settings) -> Content:
    """Vary the norm PostMax divides by: L2, L1 or none."""
    rows: list[tuple[Entry, ...]] = []
    for network in networks(settings):
        kinds = _tested(network, without=network.hard)
        for m in _NORMS.items():
            chosen = _threshold(network, m)
            values = {"OOSA": _oosa, "AUROC": _ranking("auroc")}
            numbers = [
                Measured.of(
                    [
                        mean(split)
                        for split in _by_split(
                            [_five(network, m, kind, value, chosen) for kind in kinds]
                        )
                    ]
                )
                for value in values.values()
            ]
            rows.append((network.title, m[0], *numbers))
    return Content(
        tables=(
            Table(
                title="PostMax by norm, mean over all test unknowns",
                columns=("network", "norm", "OOSA", "AUROC"),
                rows=tuple(rows),
                note="Without a norm PostMax ranks samples as MaxLogit does.",
            ),
        )
    )


def surrogate(settings: Settings) -> Content:
    """Vary the unknowns that the threshold is chosen with."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        kinds = network.surrogates or (network.hard,)
        rows: list[tuple[Entry, ...]] = []
        for kind in kinds:
            tested = _tested(network, without=kind)
            of = {}
            for m in methods:
                chosen = _threshold(network, m, kind=kind)
                found = [_five(network, m, one, _oosa, chosen) for one in tested]
                of[m[0]] = Measured.of([mean(split) for split in _by_split(found)])
            entries = [of.get(title) for title in METHODS]
            n = len(network.part(network.surrogate(kind)))
            rows.append((f"{kind} ({n:,})", *entries, _best(of, "OOSA")))
        tables.append(
            Table(
                title=f"OOSA by surrogate, {network.title}",
                columns=("threshold chosen with", *METHODS, "best"),
                rows=tuple(rows),
                note="Mean over the other kinds of unknowns: rows differ in them.",
            )
        )
    return Content(tables=tuple(tables))


def _item(
    name: str, number: str, what: str, make: Callable[[Settings], Content]
) -> Item:
    return Item(
        name=f"postmax-{name}",
        paper=_PAPER,
        number=number,
        what=what,
        needs="nothing (digits), or --outputs DIR",
        time="seconds",
        make=make,
    )


ITEMS = (
    _item("table1", "Table 1", "OOSA of five methods on five test splits", table1),
    _item("table2", "Table 2", "AUROC and FPR95 on five test splits", table2),
    _item("table3", "Table 3", "OOSA, sets for threshold and test exchanged", table3),
    _item("table4", "Table 4", "AUROC and FPR95 on the sets of Table 3", table4),
    _item("tests", "Section 4.2", "Paired t-tests with Bonferroni's correction", tests),
    _item("fig1", "Figure 1", "OSA over URR: operational threshold, oracle", figure1),
    _item("fig2", "Figure 2", "Feature magnitudes of known and unknown", figure2),
    _item("metrics", "Supplement", "AUOSCR and OpenAUC on five splits", more_metrics),
    _item("alpha", "Supplement, α", "OOSA over α", alpha),
    _item("norm", "Supplement, norm", "PostMax with L2, L1 and no norm", norm),
    _item("surrogate", "Section 4.3", "OOSA by kind of surrogate", surrogate),
    Item(
        name="postmax-scale",
        paper=_PAPER,
        number="Section 4.1, size",
        what="Time and memory for 1.28 million x 1000 logits, synthetic",
        needs="12 GB of disk, for a while",
        time="minutes on a CPU",
        make=_scale.scale,
    ),
)
