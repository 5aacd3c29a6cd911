"""What the PostMax paper varies: α, the norm, and the surrogate unknowns."""

from collections.abc import Mapping, Sequence
from functools import partial

from openset import detectors
from openset.detectors import Detector
from openset.reproduce._item import Content, Settings
from openset.reproduce._operational import METHODS, Network, networks
from openset.reproduce._postmax_measures import (
    best_method,
    choose_threshold,
    kinds_to_test,
    mean_over_kinds,
    oosa,
    ranking,
)
from openset.reproduce._table import Entry, Table

_ALPHAS = (0.1, 0.25, 0.5, 0.75, 0.9)
_NORMS: Mapping[str, Detector] = {
    "L2, as published": detectors.PostMax(),
    "L1": detectors.PostMax(norm="l1"),
    "none": detectors.PostMax(norm="none"),
}


def alpha(settings: Settings) -> Content:
    """Vary α, the weight of the known samples, to choose and to report."""
    tables = []
    for network in networks(settings):
        methods = list(network.methods(METHODS))
        kinds = kinds_to_test(network, without=network.hard)
        rows: list[tuple[Entry, ...]] = []
        for weight in (*_ALPHAS, "counts"):
            of = {}
            for m in methods:
                chosen = choose_threshold(network, m, alpha=weight)
                value = partial(oosa, alpha=weight)
                of[m[0]] = mean_over_kinds(network, m, kinds, value, chosen)
            entries = [of.get(title) for title in METHODS]
            name = weight if isinstance(weight, str) else f"{weight:g}"
            rows.append((name, *entries, best_method(of, "OOSA")))
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


def norm(settings: Settings) -> Content:
    """Vary the norm PostMax divides by: L2, L1 or none."""
    rows: list[tuple[Entry, ...]] = []
    for network in networks(settings):
        kinds = kinds_to_test(network, without=network.hard)
        for m in _NORMS.items():
            chosen = choose_threshold(network, m)
            numbers = [
                mean_over_kinds(network, m, kinds, value, chosen)
                for value in (oosa, ranking("auroc"))
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
            tested = kinds_to_test(network, without=kind)
            of = {}
            for m in methods:
                chosen = choose_threshold(network, m, kind=kind)
                of[m[0]] = mean_over_kinds(network, m, tested, oosa, chosen)
            entries = [of.get(title) for title in METHODS]
            n = len(network.part(network.surrogate(kind)))
            rows.append((f"{kind} ({n:,})", *entries, best_method(of, "OOSA")))
        tables.append(
            Table(
                title=f"OOSA by surrogate, {network.title}",
                columns=("threshold chosen with", *METHODS, "best"),
                rows=tuple(rows),
                note="Mean over the other kinds of unknowns: rows differ in them.",
            )
        )
    return Content(tables=tuple(tables))
