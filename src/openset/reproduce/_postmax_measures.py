"""How the PostMax paper measures: threshold, number, test splits, best method."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openset import metrics, thresholds
from openset.detectors import Detector
from openset.metrics import oscr_curve
from openset.metrics.counts import Alpha
from openset.reproduce._operational import Network, joined, mean
from openset.reproduce._table import Measured
from openset.scores import Scores
from openset.thresholds import Threshold

METRICS = {"OOSA": "oosa", "AUROC": "auroc", "FPR95": "fpr_at_tpr"}
Value = Callable[[Scores, Threshold], float]
"""A number of test scores, and of the threshold chosen before."""


def oosa(scores: Scores, threshold: Threshold, alpha: Alpha = "counts") -> float:
    """Return the open-set accuracy at a threshold that was chosen before."""
    return thresholds.operate(threshold, scores, alpha_test=alpha).oosa


def ranking(key: str) -> Value:
    """Return a ranking metric as a `Value`: it needs no threshold."""
    row = metrics.get(key)
    return lambda scores, threshold: row.value(scores)  # noqa: ARG005  # a Value


def auoscr(scores: Scores, threshold: Threshold) -> float:  # noqa: ARG001
    """Return the area under the OSCR curve."""
    curve = oscr_curve(scores)
    return float(np.trapezoid(curve.ccr, curve.fpr))


def choose_threshold(
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


def on_five_splits(
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


def mean_over_kinds(
    network: Network,
    method: tuple[str, Detector],
    kinds: Sequence[str],
    value: Value,
    threshold: Threshold,
) -> Measured:
    """Return a number on the five splits, each a mean over kinds of unknowns."""
    found = [on_five_splits(network, method, kind, value, threshold) for kind in kinds]
    return Measured.of([mean(split) for split in zip(*found, strict=True)])


def kinds_to_test(network: Network, *, without: str) -> list[str]:
    """Return the kinds of test unknowns that no threshold was chosen with."""
    return [kind for kind in network.unknowns if kind != without]


def best_method(of: Mapping[str, Measured], name: str) -> str:
    """Return the title of the method with the best value; of FPR95, the lowest."""
    sign = -1 if name == "FPR95" else 1
    return max(of, key=lambda title: sign * of[title].value)
