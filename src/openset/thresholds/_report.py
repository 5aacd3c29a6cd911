"""What calibration data say about a threshold, with coded cautions."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import Rates
from openset.metrics.counts import RankingCounts, optimum, ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._threshold import Span, Threshold, need_threshold
from openset.thresholds.groups import SYNTHETIC_PREFIX, ByGroup, by_group
from openset.thresholds.table import Table

ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""Weights of the known side over which a threshold's movement is reported."""

_NEAR = 0.01  # "as good as the best": within one point of open-set accuracy
_EDGE = 0.005  # share of scores beyond a threshold that sits at the edge
_ALMOST = 0.95  # "almost all" of one side
_DISAGREE = 0.05  # points of accuracy one kind of unknowns may cost another
_FEW = 50
_KINDS = 3  # fewer kinds of unknowns say little about other kinds
_CHANCE = 0.1  # share of the other classes' samples a network should get right at least


@dataclass(frozen=True)
class Caution:
    """Something to check before a threshold is trusted. Codes keep their meaning.

    CAL001 the threshold is at the edge of the scores; CAL002 almost all unknowns are
    accepted, or almost all knowns rejected; CAL003 the groups of unknowns need
    different thresholds; CAL004 few samples; CAL005 the surrogate unknowns are
    synthetic; CAL006 only one or two kinds of unknowns; CAL007 the predicted classes of
    the knowns hardly ever match their labels.
    """

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, eq=False)
class Report:
    """What a threshold does on its calibration samples, and how sensitive that is.

    `flat` is the range of thresholds around it within one point of the best open-set
    accuracy; `flat_share` is the share of calibration samples with scores in that
    range: large is good. `groups` has one row per group of unknowns, `alphas` one per
    weight of the known side (thresholds of :func:`osa`). `accuracy` is the share of
    known samples classified correctly, without rejection (None in old reports). Without
    unknowns only the known side is reported. Print a report to read it.
    """

    threshold: Threshold
    osa: float | None
    ccr: float
    accepted_known: float
    accuracy: float | None
    urr: float | None
    flat: Span | None
    flat_share: float | None
    worst_group: str | None
    synthetic: tuple[str, ...]
    groups: Table
    alphas: Table
    cautions: tuple[Caution, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the cautions."""
        return tuple(caution.code for caution in self.cautions)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The report in sentences, without groups and cautions."""
        rate, found = self.threshold.rate, []
        span = rate.interval
        known = f"{self.accepted_known:.1%} of the known samples accepted"
        unknown = (
            "" if self.urr is None else f", {self.urr:.1%} of the unknown rejected"
        )
        is_promise = self.threshold.method == "conformal"
        there = " on the calibration data"
        found.append(
            f"{rate.name} {rate.value:.4f}"
            + ("" if span is None else f" ({span.low:.4f}–{span.high:.4f})")
            + (" expected of new samples" if is_promise else there)
            + f"; {known}{unknown}"
            + (there if is_promise else "")
        )
        if self.accuracy is not None:
            found.append(
                f"closed-set accuracy of the known samples {self.accuracy:.4f}"
            )
        if self.threshold.method == "worst_group" and len(self.groups) > 1:
            loss = max(row["loss"] for row in self.groups)
            found.append(
                f"for every group of unknowns, open-set accuracy is at most {loss:.4f} "
                "below that of the group's own best threshold"
            )
        if self.flat is not None and self.flat_share:
            found.append(
                "within a point of the best open-set accuracy: thresholds from "
                f"{self.flat.low:.4g} to {self.flat.high:.4g}, {self.flat_share:.1%} "
                "of the samples"
            )
        if len(self.alphas) and self.threshold.method == "osa":
            first, last = self.alphas[0], self.alphas[-1]
            found.append(
                f"if {first['alpha']:.0%} of the samples were known, the threshold "
                f"would be {first['threshold']:.4g}; if {last['alpha']:.0%}, "
                f"{last['threshold']:.4g}"
            )
        return tuple(found)

    def __str__(self) -> str:
        groups = [
            f"  {row['group']}: {row['urr']:.4f} of {row['n']} rejected, OSA "
            f"{row['osa']:.4f}, {row['loss']:.4f} below its best"
            for row in self.groups
        ]
        lines = [f"threshold {self.threshold}", *self.sentences]
        return "\n".join([*lines, *groups, *map(str, self.cautions)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the threshold itself."""
        return {
            "osa": self.osa,
            "ccr": self.ccr,
            "accepted_known": self.accepted_known,
            "accuracy": self.accuracy,
            "urr": self.urr,
            "flat": None if self.flat is None else [str(end) for end in self.flat],
            "flat_share": self.flat_share,
            "worst_group": self.worst_group,
            "synthetic": list(self.synthetic),
            "groups": list(self.groups),
            # thresholds may be infinite, which JSON lacks
            "alphas": [
                {**row, "threshold": str(row["threshold"])} for row in self.alphas
            ],
            "cautions": [asdict(caution) for caution in self.cautions],
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any], threshold: Threshold) -> Self:
        """Read what :meth:`to_dict` gave."""
        flat = document["flat"]
        return cls(
            threshold=threshold,
            osa=document["osa"],
            ccr=document["ccr"],
            accepted_known=document["accepted_known"],
            accuracy=document.get("accuracy"),
            urr=document["urr"],
            flat=None if flat is None else Span(float(flat[0]), float(flat[1])),
            flat_share=document["flat_share"],
            worst_group=document["worst_group"],
            synthetic=tuple(document["synthetic"]),
            groups=Table(tuple(document["groups"])),
            alphas=Table(
                tuple(
                    {**row, "threshold": float(row["threshold"])}
                    for row in document["alphas"]
                )
            ),
            cautions=tuple(Caution(**one) for one in document["cautions"]),
        )


def report(scores: Scores, threshold: Threshold) -> Report:
    """Report how a threshold does on its calibration scores, with cautions.

    Examples
    --------
    >>> from openset import thresholds
    >>> scores = Scores(
    ...     labels=[0] * 60 + [-1] * 60,
    ...     predicted=[0] * 120,
    ...     known=[*range(60, 120), *range(60)],
    ...     groups=["known"] * 60 + ["near"] * 30 + ["far"] * 30,
    ... )
    >>> found = report(scores, thresholds.osa(scores))
    >>> found.osa, found.worst_group, found.codes
    (1.0, 'far', ('CAL006',))
    """
    need_scores("thresholds.report", scores)
    need_threshold("thresholds.report", threshold)
    _check.some_known("thresholds.report", scores.n_known)
    accepted = threshold.accepts(scores)
    rates = Rates.of(scores, accepted)
    osa = urr = flat = flat_share = worst = None
    rows: list[dict[str, Any]] = []
    alphas: list[dict[str, Any]] = []
    synthetic: tuple[str, ...] = ()
    clash = 0.0
    if scores.n_unknown:
        counts = ranking_counts(scores)
        table = by_group("thresholds.report", scores, threshold.alpha)
        urr, osa = rates.urr, rates.osa(table.alpha)
        rows = _group_rows(scores, accepted, rates, table)
        worst = min(rows, key=lambda row: row["osa"])["group"]
        synthetic = tuple(n for n in table.names if n.startswith(SYNTHETIC_PREFIX))
        clash = _clash(table, synthetic)
        if not threshold.per_class:
            flat, flat_share = _flatness(scores, table, threshold.value)
        alphas = _alpha_rows(counts)
    return Report(
        threshold=threshold,
        osa=osa,
        ccr=rates.ccr,
        accepted_known=rates.tpr,
        accuracy=rates.accuracy,
        urr=urr,
        flat=flat,
        flat_share=flat_share,
        worst_group=worst,
        synthetic=synthetic,
        groups=Table(tuple(rows)),
        alphas=Table(tuple(alphas)),
        cautions=tuple(
            _cautions(scores, threshold, rates, clash=clash, synthetic=synthetic)
        ),
    )


def _group_rows(
    scores: Scores, accepted: NDArray[np.bool_], rates: Rates, table: ByGroup
) -> list[dict[str, Any]]:
    groups = scores.unknown_groups
    rejected = np.bincount(groups.index, weights=~accepted[scores.is_unknown])
    rows = []
    for i, name in enumerate(groups.names):
        of_group = rates.against(
            n_unknown=int(table.n[i]), n_rejected_unknown=int(rejected[i])
        )
        osa = of_group.osa(table.alpha)
        # One threshold per class may do better than the best single one.
        best = max(float(table.osa[i].max()), osa)
        rows.append(
            {
                "group": name,
                "n": of_group.n_unknown,
                "urr": of_group.urr,
                "osa": osa,
                "best": best,
                "loss": best - osa,
            }
        )
    return rows


def _clash(table: ByGroup, synthetic: tuple[str, ...]) -> float:
    """Return the most a group loses at the best threshold of another group."""
    is_real = ~np.isin(table.names, synthetic)
    chosen = is_real if is_real.any() else ~is_real
    best = table.osa[chosen].argmax(axis=1)
    return float(table.regret[np.ix_(chosen, best)].max())


def _flatness(scores: Scores, table: ByGroup, value: float) -> tuple[Span, float]:
    """Thresholds around `value` within a point of the best, and the share of samples.

    The accuracy is that of all unknowns together.
    """
    shares = table.n / table.n.sum()
    osa = table.alpha * table.ccr + (1 - table.alpha) * (shares @ table.urr)
    level = int(np.searchsorted(-table.values, -value, side="right")) - 1
    level = max(level, 0)
    is_far = osa < osa.max() - _NEAR
    above = np.flatnonzero(is_far[: level + 1])
    below = np.flatnonzero(is_far[level:])
    start = int(above[-1]) + 1 if above.size else 0
    stop = level + int(below[0]) if below.size else table.values.size
    if start >= stop:  # the threshold itself is not within a point of the best
        return Span(value, value), 0.0
    low = float(table.values[stop]) if stop < table.values.size else -np.inf
    span = Span(low, float(table.values[start]))
    inside = (scores.known > span.low) & (scores.known <= span.high)
    return span, float(np.count_nonzero(inside) / len(scores))


def _alpha_rows(counts: RankingCounts) -> list[dict[str, Any]]:
    rows = []
    for alpha in ALPHAS:
        best = optimum(counts, alpha=alpha)
        rates = counts.rates(best.threshold)
        rows.append(
            {
                "alpha": alpha,
                "threshold": best.threshold,
                "osa": best.value,
                "accepted_known": rates.tpr,
                "urr": rates.urr,
            }
        )
    return rows


def _cautions(
    scores: Scores,
    threshold: Threshold,
    rates: Rates,
    *,
    clash: float,
    synthetic: tuple[str, ...],
) -> list[Caution]:
    found: list[Caution] = []

    def add(code: str, message: str) -> None:
        found.append(Caution(code, message))

    below = float(np.count_nonzero(scores.known < threshold.value) / len(scores))
    if not _EDGE <= below <= 1 - _EDGE:
        end = "lowest" if below < _EDGE else "highest"
        add(
            "CAL001",
            f"the threshold {threshold.value:.4g} is among the {end} scores: "
            f"{below:.1%} of the calibration samples lie below it",
        )
    if rates.tpr < 1 - _ALMOST:
        add("CAL002", f"{1 - rates.tpr:.1%} of the known samples are rejected")
    if rates.n_unknown and rates.urr < 1 - _ALMOST:
        add("CAL002", f"{1 - rates.urr:.1%} of the unknown samples are accepted")
    if clash > _DISAGREE:
        advice = (
            "This threshold already limits the largest loss; another detector may help"
            if threshold.method == "worst_group"
            else "Consider the objective worst_group, or comparing several detectors"
        )
        add(
            "CAL003",
            f"the groups of unknowns disagree: at the best threshold for one group, "
            f"another loses up to {clash:.1%} of open-set accuracy. {advice}",
        )
    few = [
        f"{n} {side}"
        for side, n in (("known", scores.n_known), ("unknown", scores.n_unknown))
        if 0 < n < _FEW
    ]
    if few:
        add("CAL004", f"few calibration samples: {' and '.join(few)}")
    n_kinds = len(scores.unknown_groups.names)
    n_real = n_kinds - len(synthetic)
    if synthetic and not n_real:
        kinds = ", ".join(name.removeprefix(SYNTHETIC_PREFIX) for name in synthetic)
        add(
            "CAL005",
            f"the surrogate unknowns are synthetic ({kinds}), made from known samples: "
            f"real unknowns may be accepted more often",
        )
    n_kinds = n_real or n_kinds
    if scores.n_unknown and n_kinds < _KINDS:
        add(
            "CAL006",
            f"{'one kind' if n_kinds == 1 else 'two kinds'} of unknowns only: that "
            f"says little about other kinds. Name the kinds in groups, or add more",
        )
    accuracy = rates.accuracy
    commonest = np.bincount(scores.labels[~scores.is_unknown]).max() / scores.n_known
    if commonest < 1 and accuracy < commonest + _CHANCE * (1 - commonest):
        add(
            "CAL007",
            f"the predicted class is right for only {accuracy:.1%} of the known "
            f"samples ({commonest:.1%} belong to one class). Do the labels number the "
            f"classes as the network does, and are they in the order of its outputs?",
        )
    return found
