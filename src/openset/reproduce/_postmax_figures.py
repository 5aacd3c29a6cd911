"""Figures 1 and 2 of the PostMax paper: thresholds and feature magnitudes."""

from openset import magnitudes, metrics, report, thresholds
from openset.outputs import Outputs
from openset.reproduce._item import Content, Settings
from openset.reproduce._operational import METHODS, Network, joined, networks
from openset.reproduce._postmax_measures import choose_threshold, kinds_to_test
from openset.reproduce._table import Entry, Table


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
            done = thresholds.operate(
                choose_threshold(network, m), test, alpha_test="counts"
            )
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

    return min(kinds_to_test(network, without=network.hard), key=auroc)


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
