"""Facts about every metric: what it needs, which way is up, where it is defined."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from openset import _check
from openset.metrics import (
    _aggregate,
    _at_rate,
    _aupr,
    _auroc,
    _fscore,
    _imbalance,
    _nacc,
    _openauc,
    _osa,
    _oscr,
    _youden,
)
from openset.metrics._accuracy import accuracy
from openset.metrics._class_counts import ClassCounts
from openset.metrics._confusion import confusion

Kind = Literal["closed", "ranking", "threshold", "curve", "operational", "data"]


Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """One entry of the registry.

    `kind`: ``closed`` (knowns only, nobody rejected), ``ranking`` (no threshold),
    ``threshold``, ``curve`` (returns more than a number), ``operational`` (needs a
    calibration set), ``data`` (describes the data, not the detector). `better`: which
    way is up. `kernel` computes the value from shared counts, one per bootstrap
    replicate.
    """

    function: Callable[..., Any]
    kind: Kind
    better: Direction
    bounds: tuple[float, float] | None
    reference: str
    kernel: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__


def _accuracy_kernel(counts: ClassCounts) -> Any:
    return counts.closed_hits.sum(axis=-1) / counts.n_known


def _ccr_kernel(counts: ClassCounts) -> Any:
    return counts.hits.sum(axis=-1) / counts.n_known


def _urr_kernel(counts: ClassCounts) -> Any:
    return counts.rejected_unknown / counts.n_unknown


def _osa_kernel(counts: ClassCounts, *, alpha: float | None = None) -> Any:
    weight = counts.n_known / counts.n if alpha is None else alpha
    return weight * _ccr_kernel(counts) + (1 - weight) * _urr_kernel(counts)


_DHAMIJA = "Dhamija et al., NeurIPS 2018"
_OPENAUC = "Wang et al., NeurIPS 2022"
_IMBALANCE = "Komorniczak & Ksieniewicz, 2024"
_POSTMAX = "Cruz et al., ECCV 2024"
_UNIT = (0.0, 1.0)

_METRICS = (
    Metric(accuracy, "closed", "higher", _UNIT, "", _accuracy_kernel),
    Metric(_auroc.auroc, "ranking", "higher", _UNIT, "", _auroc.kernel),
    Metric(_at_rate.fpr_at_tpr, "ranking", "lower", _UNIT, "", _at_rate.fpr_kernel),
    Metric(_at_rate.error_at_tpr, "ranking", "lower", _UNIT, "", _at_rate.error_kernel),
    Metric(_aupr.aupr, "ranking", "higher", _UNIT, "", _aupr.kernel),
    Metric(_oscr.oscr_curve, "curve", "neither", None, _DHAMIJA),
    Metric(_oscr.ccr_at_fpr, "ranking", "higher", _UNIT, _DHAMIJA, _oscr.ccr_kernel),
    Metric(_openauc.openauc, "ranking", "higher", _UNIT, _OPENAUC, _openauc.kernel),
    Metric(
        _openauc.partial_openauc,
        "ranking",
        "higher",
        _UNIT,
        _OPENAUC,
        _openauc.partial_kernel,
    ),
    Metric(
        _aggregate.acc_times_auroc,
        "ranking",
        "higher",
        _UNIT,
        _OPENAUC,
        _aggregate.times_kernel,
    ),
    Metric(
        _aggregate.acc_plus_auroc,
        "ranking",
        "higher",
        (0.0, 2.0),
        _OPENAUC,
        _aggregate.plus_kernel,
    ),
    Metric(_fscore.f_score, "threshold", "higher", _UNIT, _OPENAUC, _fscore.kernel),
    Metric(
        _youden.youden, "threshold", "higher", (-1.0, 1.0), _OPENAUC, _youden.kernel
    ),
    Metric(
        _nacc.normalized_accuracy, "threshold", "higher", _UNIT, _OPENAUC, _nacc.kernel
    ),
    Metric(
        _imbalance.inner_score,
        "closed",
        "higher",
        _UNIT,
        _IMBALANCE,
        _imbalance.inner_kernel,
    ),
    Metric(
        _imbalance.outer_score,
        "threshold",
        "higher",
        _UNIT,
        _IMBALANCE,
        _imbalance.outer_kernel,
    ),
    Metric(
        _imbalance.halfpoint_score,
        "threshold",
        "higher",
        _UNIT,
        _IMBALANCE,
        _imbalance.halfpoint_kernel,
    ),
    Metric(
        _imbalance.overall_score,
        "threshold",
        "higher",
        _UNIT,
        _IMBALANCE,
        _imbalance.overall_kernel,
    ),
    Metric(_osa.ccr, "threshold", "higher", _UNIT, _DHAMIJA, _ccr_kernel),
    Metric(_osa.urr, "threshold", "higher", _UNIT, _POSTMAX, _urr_kernel),
    Metric(_osa.osa, "threshold", "higher", _UNIT, _POSTMAX, _osa_kernel),
    Metric(_osa.oosa, "operational", "higher", _UNIT, _POSTMAX),
    Metric(_osa.osa_curve, "curve", "neither", None, _POSTMAX),
    Metric(confusion, "curve", "neither", None, ""),
    Metric(_imbalance.imbalance_ratio, "data", "neither", None, _IMBALANCE),
)

REGISTRY = {metric.name: metric for metric in _METRICS}


def names() -> list[str]:
    """Return the names of all metrics."""
    return list(REGISTRY)


def get(name: str) -> Metric:
    """Return what is known about a metric."""
    _check.one_of("metrics.get", "name", name, names())
    return REGISTRY[name]
