"""Prediction sets: "one of these classes" for accepted samples, with a coverage."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import UNKNOWN
from openset.outputs import Outputs

Method = Literal["lac", "raps"]

_AT_A_TIME = 1 << 20  # probabilities in memory


@dataclass(frozen=True, kw_only=True)
class SetRule:
    r"""Which classes belong to the prediction set of a sample.

    Class c belongs to the set iff its score is at most the limit q of the class; the
    predicted class always does. With class probabilities p (softmax of the logits):

    * ``"lac"``: the score of c is :math:`1 - p_c`: all classes that are probable enough
      (Sadinle, Lei and Wasserman). The smallest sets on average.
    * ``"raps"``: the score of c is the probability of all classes more probable than c,
      plus `penalty` for each rank beyond `free` (Angelopoulos et al., without their
      random number: the most probable classes until their probability exceeds q).
      Larger sets for harder samples.

    The limit is the :math:`\lceil (n + 1) \cdot \mathrm{coverage} \rceil`-th smallest
    score of the true class among n *accepted* known samples; +inf, so that all classes
    belong, if there are too few.

    **What is guaranteed.** If the samples were not used to choose the threshold, and a
    new sample is exchangeable with them, then given that it is known and accepted, its
    class is in the set with probability at least `coverage`; with `by_class`, this also
    holds for the samples of each single class. **What is not**: an accepted *unknown*
    sample has a set as well, which cannot be right. Nothing holds for a single class
    without `by_class`. If the threshold was chosen on the same samples, the coverage is
    approximate: the more the threshold depends on single samples, the more it may
    differ.

    Parameters
    ----------
    method
        ``"lac"`` or ``"raps"``.
    coverage
        The share of accepted known samples whose class is to be in the set.
    limits
        The limit of every class: one number for all, or with `by_class` one for each.
    by_class
        Whether each class has a limit of its own.
    n
        Number of accepted known samples it was computed from.
    penalty, free
        Of ``"raps"``.

    References
    ----------
    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded
    error levels", JASA 2019; Angelopoulos et al., "Uncertainty sets for image
    classifiers using conformal prediction", ICLR 2021; Vovk, "Conditional validity of
    inductive conformal predictors", ACML 2012.

    Examples
    --------
    >>> rule = SetRule.calibrate(
    ...     [[2.0, 1.0, 0.0]] * 9, labels=[0] * 6 + [1] * 3, method="lac", coverage=0.8
    ... )
    >>> rule.contains([[2.0, 1.0, 0.0], [5.0, 0.0, 0.0]])
    array([[ True,  True, False],
           [ True, False, False]])
    """

    method: Method
    coverage: float
    limits: tuple[float, ...]
    by_class: bool
    n: int
    penalty: float = 0.0
    free: int = 0

    @classmethod
    def calibrate(
        cls,
        logits: Any,
        labels: Any,
        *,
        method: Method = "lac",
        coverage: float = 0.9,
        by_class: bool = False,
        penalty: float = 0.01,
        free: int = 5,
        caller: str = "SetRule.calibrate",
    ) -> Self:
        """Compute the limits from accepted known samples."""
        _check.one_of(caller, "sets", method, get_args(Method))
        share = checked_coverage(caller, coverage)
        _check.number(caller, "penalty", penalty, low=0)
        _check.integer(caller, "free", free, low=0)
        labels = np.asarray(labels)
        if labels.size and labels.min() < 0:  # -1 would be the last class
            rule, remedy = "known classes, >= 0", "Leave unknown samples out"
            got = str(labels.min())
            msg = _check.must(
                rule, caller=caller, name="labels", got=got, remedy=remedy
            )
            raise ValueError(msg)
        scores = _scores(np.asarray(logits), method, penalty, free)
        own = scores[np.arange(labels.size), labels]
        if by_class:
            limits = tuple(
                _limit(own[labels == c], share) for c in range(scores.shape[1])
            )
        else:
            limits = (_limit(own, share),)
        is_raps = method == "raps"
        return cls(
            method=method,
            coverage=float(coverage),
            limits=limits,
            by_class=by_class,
            n=int(labels.size),
            penalty=float(penalty) if is_raps else 0.0,
            free=int(free) if is_raps else 0,
        )

    def contains(self, logits: Any) -> NDArray[np.bool_]:
        """Return a mask of the classes in the set of each sample, shape (n, C)."""
        values = np.asarray(logits)
        if self.by_class and values.shape[1] != len(self.limits):
            msg = _check.must(
                f"of {len(self.limits)} classes, as in the calibration",
                caller="SetRule.contains",
                name="logits",
                got=values.shape[1],
            )
            raise ValueError(msg)
        found = np.empty(values.shape, dtype=bool)
        limits = np.array(self.limits)
        size = max(1, _AT_A_TIME // max(values.shape[1], 1))
        for start in range(0, len(values), size):
            part = values[start : start + size]
            scores = _scores(part, self.method, self.penalty, self.free)
            found[start : start + size] = scores <= limits
        found[np.arange(len(values)), values.argmax(axis=1)] = True
        return found

    def __str__(self) -> str:
        of = (
            "the accepted samples of each class"
            if self.by_class
            else "the accepted known samples"
        )
        return (
            f"{self.method}: the set contains the right class for "
            f"{self.coverage:.4g} of {of} (calibrated on {self.n} accepted known "
            "samples)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; +inf becomes text."""
        return {
            "method": self.method,
            "coverage": self.coverage,
            "limits": [one if np.isfinite(one) else str(one) for one in self.limits],
            "by_class": self.by_class,
            "n": self.n,
            "penalty": self.penalty,
            "free": self.free,
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        method = document["method"]
        _check.one_of("SetRule.from_dict", "method", method, get_args(Method))
        return cls(
            method=method,
            coverage=float(document["coverage"]),
            limits=tuple(float(one) for one in document["limits"]),
            by_class=bool(document["by_class"]),
            n=int(document["n"]),
            penalty=float(document["penalty"]),
            free=int(document["free"]),
        )


def checked_coverage(caller: str, coverage: float) -> Fraction:
    """Return a coverage as an exact fraction; raise unless it is in (0, 1)."""
    _check.open_unit(caller, "coverage", coverage)
    return _check.fraction(coverage)


def classes_in(sets: NDArray[np.bool_], labels: NDArray[np.int64]) -> list[list[int]]:
    """List the classes of each set; rejected samples have none."""
    return [
        [] if label == UNKNOWN else np.flatnonzero(row).tolist()
        for row, label in zip(sets, labels.tolist(), strict=True)
    ]


def logits_of(caller: str, outputs: Outputs) -> NDArray[Any]:
    """Return the logits, from which sets are made; raise without."""
    if outputs.logits is None:
        msg = _check.must(
            "with logits, from which prediction sets are made",
            caller=caller,
            name="outputs",
            got="features only",
        )
        raise ValueError(msg)
    return _xp.to_numpy(outputs.logits)


def _limit(scores: NDArray[np.float64], coverage: Fraction) -> float:
    rank = ceil((scores.size + 1) * coverage)
    if rank > scores.size:
        return inf
    return float(np.partition(scores, rank - 1)[rank - 1])


def _scores(
    logits: NDArray[Any], method: Method, penalty: float, free: int
) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    top = values.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # inf - inf: as probable as the top
        values = np.exp(np.where(values == top, 0.0, values - top))
    p = values / values.sum(axis=1, keepdims=True)
    if method == "lac":
        return 1 - p
    order = np.argsort(-p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    # Probability of the classes before: the most probable class has none before it.
    before = np.cumsum(ordered, axis=1) - ordered
    before += penalty * np.maximum(np.arange(1, p.shape[1] + 1) - free, 0)
    found = np.empty_like(before)
    np.put_along_axis(found, order, before, axis=1)
    return found
