"""Section 4.2 of the PostMax paper: tests of PostMax against the others."""

from collections.abc import Sequence

from openset import stats
from openset.reproduce._item import Content, Settings
from openset.reproduce._operational import METHODS, mean, networks
from openset.reproduce._postmax_measures import (
    METRICS,
    choose_threshold,
    kinds_to_test,
    on_five_splits,
    oosa,
    ranking,
)
from openset.reproduce._published import published
from openset.reproduce._table import Entry, Table
from openset.results import Result, Results

_OURS = "PostMax"


def tests(settings: Settings) -> Content:
    """Test PostMax against the others: paired t-tests with Bonferroni's correction."""
    rows = []
    for network in networks(settings):
        for m in network.methods(METHODS):
            chosen = choose_threshold(network, m)
            values = {n: ranking(METRICS[n]) for n in ("AUROC", "FPR95")}
            for name, value in ({"OOSA": oosa} | values).items():
                rows += [
                    Result(
                        protocol=kind,
                        repeat=i,
                        model=network.title,
                        detector=m[0],
                        metric=METRICS[name],
                        value=found,
                    )
                    for kind in kinds_to_test(network, without=network.hard)
                    for i, found in enumerate(
                        on_five_splits(network, m, kind, value, chosen)
                    )
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
        for name, key in METRICS.items()
        for title in titles
        for test in stats.paired_t(
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
