"""`openset calibrate`: print what was chosen, and how it does on data."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from openset import magnitudes, thresholds
from openset._types import UNKNOWN
from openset.cli._cautions import print_cautions
from openset.cli._console import ERRORS, OUT
from openset.cli._lists import plain_table
from openset.detectors import Combined, Detector, Fitted
from openset.metrics.counts import Alpha, weight_of
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.selection import Choice
from openset.thresholds import Operation
from openset.thresholds.kinds import SYNTHETIC_PREFIX

_NARROW = 80  # columns of a terminal
_TEXTS = {"detector", "objective", "worst group", "unknowns"}  # all others are numbers


def _described(detector: Detector) -> str:
    """Return its name; for a combination also those of its parts."""
    if not isinstance(detector, Combined):
        return detector.name
    return f"{detector.name}: {', '.join(name for name, _ in detector.parts)}"


def print_choice(choice: Choice) -> None:
    """Print how the detectors compare, and which is chosen."""
    where = "held-out kinds"
    if choice.n_kinds == 1:
        where = "the given unknown samples (one kind, so none is held out)"
    table = _table(
        f"Open-set accuracy on {where}, alpha {choice.alpha:g}",
        "detector",
        "mean",
        "worst",
        "worst group",
    )
    for i, row in enumerate(choice.ranking):
        table.add_row(
            escape(row["detector"]),
            f"{row['mean']:.4f}",
            f"{row['worst']:.4f}",
            escape(row["worst_group"]),
            style="bold green" if i == 0 else None,
        )
    OUT.print(table)
    OUT.print(f"chosen: {choice}\n", highlight=False)


def print_magnitudes(known: Outputs, sets: Sequence[Outputs]) -> None:
    """Say whether unknown features are longer, and whether dividing by it helps."""
    # Features of made-up unknowns did not pass through the network.
    real = [one for one in sets if not _is_synthetic(one)]
    if not real or any(one.features is None for one in (known, *real)):
        return
    named = {str(i): one.as_unknown() for i, one in enumerate(real)}
    found = magnitudes.measure({"known": known} | named)
    OUT.print(found.sentence(), highlight=False)


def _is_synthetic(one: Outputs) -> bool:
    return one.groups is not None and str(one.groups[0]).startswith(SYNTHETIC_PREFIX)


def print_report(rejector: Rejector) -> None:
    """Print the threshold, its rates on the calibration data, and cautions."""
    report = rejector.report
    table = Table(
        title="On the calibration data",
        title_justify="left",
        box=None,
        pad_edge=False,
        show_header=False,
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("detector", escape(_described(rejector.fitted.detector)))
    for name, text in report.summary:
        table.add_row(name, escape(text))
    if rejector.sets is not None:
        table.add_row("prediction sets", escape(str(rejector.sets)))
    OUT.print()
    OUT.print(table, highlight=False)
    if len(report.groups) > 1:
        alpha = 0.5 if rejector.threshold.alpha is None else rejector.threshold.alpha
        title = f"On the calibration data, alpha {alpha:.3g}"
        table = _table(title, "unknowns", "n", "rejected", "OSA", "best OSA", "loss")
        for row in report.groups:
            mark = " (worst)" if row["group"] == report.worst_group else ""
            table.add_row(
                escape(row["group"]) + mark,
                str(row["n"]),
                f"{row['urr']:.4f}",
                f"{row['osa']:.4f}",
                f"{row['best']:.4f}",
                f"{row['loss']:.4f}",
            )
        OUT.print(table)
    print_cautions(rejector, ERRORS if OUT.quiet else OUT)


def print_test(
    rejector: Rejector, test: Outputs, alpha: Alpha, prices: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Print the results on test data, with `prices` the cost too, and return them."""
    found = _print_rates(rejector, test, alpha)
    if prices is not None and "oosa" in found:
        found["cost"] = _print_cost(rejector, test, alpha, prices)
    return found


def _print_rates(rejector: Rejector, test: Outputs, alpha: Alpha) -> dict[str, Any]:
    labels = np.asarray(test.labels)
    if (labels == UNKNOWN).any() and (labels != UNKNOWN).any():
        done = rejector.operate(test, alpha=alpha)
        _print_operation(done)
        return done.to_dict()
    scores = rejector.score(test)
    rejector.threshold.check_disjoint(scores, caller="openset calibrate")
    rates = rejector.threshold.rates(scores)
    if rates.n_unknown:
        text = f"{rates.urr:.1%} of {len(test)} unknown samples rejected"
    else:
        text = (
            f"{rates.tpr:.1%} of {len(test)} known samples accepted, {rates.ccr:.1%} "
            "accepted with the right class"
        )
    OUT.print(f"On the test data: {text}", highlight=False)
    if rates.n_unknown:
        return {"urr": rates.urr}
    return {"accepted_known": rates.tpr, "ccr": rates.ccr}


def _print_operation(done: Operation) -> None:
    table = _table(
        f"On the test data, alpha {done.alpha_test:.3g}",
        "unknowns",
        "n",
        "rejected",
        "OOSA",
        "oracle OSA",
        "gap",
    )
    for row in done.groups:
        table.add_row(
            escape(row["group"]),
            str(row["n"]),
            *(f"{row[name]:.4f}" for name in ("urr", "oosa", "oracle", "gap")),
        )
    if len(done.groups) > 1:
        table.add_row(
            "together",
            str(sum(row["n"] for row in done.groups)),
            *(f"{value:.4f}" for value in (done.urr, done.oosa, done.oracle, done.gap)),
            style="bold",
        )
    OUT.print(table)


def _print_cost(
    rejector: Rejector, test: Outputs, alpha: Alpha, prices: Mapping[str, Any]
) -> float:
    scores = rejector.fitted.score(test)
    share = float(weight_of("alpha", alpha, scores.n_known, scores.n_unknown))
    rates = rejector.threshold.rates(scores)
    paid = thresholds.at_prevalence(rates, 1 - share, **prices).cost
    least = thresholds.by_cost(scores, alpha=alpha, **prices).rate.value
    text = (
        f"Cost of a decision on the test data: {paid:.4g} (with the best threshold for "
        f"these samples: {least:.4g})"
    )
    OUT.print(text, highlight=False)
    return paid


def document(
    rejector: Rejector,
    source: Fitted | Choice,
    out: str,
    on_test: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return what --json prints."""
    threshold = rejector.threshold.to_dict()
    del threshold["fingerprint"]  # hashes of the samples, for watch and the checks
    detector, sets = rejector.fitted.detector, rejector.sets
    return {
        "out": out,
        "detector": {"name": detector.name, "params": detector.params()},
        "compared": list(source.ranking) if isinstance(source, Choice) else [],
        "threshold": threshold,
        "report": rejector.report.to_dict(),
        "sets": None if sets is None else sets.to_dict(),
        "test": on_test,
    }


def _table(title: str, *columns: str) -> Table:
    """Make a table that folds names where there is no room, and never cuts numbers."""
    table = plain_table(title)
    for column in columns:
        # A heading of several lines leaves more room for names.
        heading = column.replace(" ", "\n") if OUT.width < _NARROW else column
        is_text = column in _TEXTS
        table.add_column(
            heading,
            justify="left" if is_text else "right",
            no_wrap=not is_text,
            overflow="fold",
        )
    return table
