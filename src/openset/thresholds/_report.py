"""What calibration data say about a threshold, with coded cautions."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import Interval, Rates
from openset.metrics.counts import RankingCounts, ranking_counts
from openset.metrics.curves import optimum
from openset.scores import Scores, need_scores
from openset.thresholds._cautions import CalibrationFacts, Caution, cautions
from openset.thresholds._prevalence import at_prevalence
from openset.thresholds._threshold import Rate, Span, Threshold, need_threshold
from openset.thresholds.groups import SYNTHETIC_PREFIX, ByGroup, by_group
from openset.thresholds.kinds import Kinds, kinds_of
from openset.thresholds.new_kind import new_kind
from openset.thresholds.table import Table

ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""Weights of the known samples over which a threshold's movement is reported."""

_SHARES = (0.01, 0.1)  # of unknown samples, to show what a rejection means there
_NAMES = {
    "osa": "open-set accuracy",
    "osa of the hardest group": "open-set accuracy, hardest group",
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "false_unknown": "known samples to be rejected",
    "cost": "cost of a decision",
}
_NEAR = 0.01  # "as good as the best": within one point of open-set accuracy


@dataclass(frozen=True, eq=False)
class Report:
    """What a threshold does on its calibration samples, and how sensitive that is.

    `flat` is the range of thresholds around it within one point of the best open-set
    accuracy; `flat_share` is the share of calibration samples with scores in that
    range: large is good. `groups` has one row per group of unknowns, `alphas` one per
    weight of the known samples (thresholds of :func:`osa`). `accuracy` is the share of
    known samples classified correctly, without rejection (None in old reports). Without
    unknown samples, only what concerns the known ones is reported. `kinds` are the
    kinds of unknowns that differ beyond noise, each as the names of its groups;
    `new_kind` is the open-set accuracy to expect of one more kind, with its interval.
    Print a report to read it.
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
    kinds: tuple[tuple[str, ...], ...]
    new_kind: Rate | None
    cautions: tuple[Caution, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the cautions."""
        return tuple(caution.code for caution in self.cautions)

    @property
    def rates(self) -> Rates:
        """Counts of the decisions on the calibration samples."""
        n = self.threshold.n
        correct = self.ccr if self.accuracy is None else self.accuracy
        return Rates(
            n_known=n.known,
            n_unknown=n.unknown,
            n_correct=round(correct * n.known),
            n_accepted_known=round(self.accepted_known * n.known),
            n_accepted_correct=round(self.ccr * n.known),
            n_rejected_unknown=round((self.urr or 0.0) * n.unknown),
        )

    @property
    def summary(self) -> tuple[tuple[str, str], ...]:
        """The report as names and values, without groups and cautions."""
        rate = self.threshold.rate
        value = f"{rate.value:.4f}"
        if rate.interval is not None:
            value += f" ({rate.interval.low:.4f}–{rate.interval.high:.4f})"
        found = [
            ("threshold", str(self.threshold)),
            (_NAMES.get(rate.name, rate.name), value),
            ("known samples accepted", f"{self.accepted_known:.1%}"),
        ]
        if self.urr is not None:
            found.append(("unknown samples rejected", f"{self.urr:.1%}"))
        if self.accuracy is not None:
            found.append(("accuracy without rejection", f"{self.accuracy:.4f}"))
        if self.threshold.method == "worst_group" and len(self.groups) > 1:
            loss = max(row["loss"] for row in self.groups)
            found.append(
                (
                    "largest loss of a group",
                    f"{loss:.4f} below the open-set accuracy with the best threshold "
                    "for that group",
                )
            )
        if self.new_kind is not None and self.new_kind.interval is not None:
            span = self.new_kind.interval
            found.append(
                (
                    "on a new kind of unknowns",
                    f"open-set accuracy {self.new_kind.value:.2f}, between "
                    f"{span.low:.2f} and {span.high:.2f} ({span.level:.0%}) on kinds "
                    "like these; worse for unknowns that resemble your classes",
                )
            )
        if self.flat is not None and self.flat_share:
            found.append(
                (
                    "thresholds about as good",
                    f"{self.flat.low:.4g} to {self.flat.high:.4g}, with open-set "
                    f"accuracy within 0.01 of the best; {self.flat_share:.1%} of the "
                    "samples score in this range",
                )
            )
        if self.urr is not None:
            found += self._at_shares()
        if len(self.alphas) and self.threshold.method == "osa":
            first, last = self.alphas[0], self.alphas[-1]
            found.append(
                (
                    "with another alpha",
                    f"threshold {first['threshold']:.4g} with alpha "
                    f"{first['alpha']:g}, {last['threshold']:.4g} with "
                    f"{last['alpha']:g}",
                )
            )
        return tuple(found)

    def _at_shares(self) -> list[tuple[str, str]]:
        """Return the share of unknowns among rejected samples, if unknowns are rare."""
        told = [
            f"{made.unknown_precision:.0%} if {share:.0%} of all samples are unknown"
            for share in _SHARES
            if (made := at_prevalence(self.rates, share)).unknown_precision is not None
        ]
        if not told:
            return []
        text = ", ".join(told) + ", for unknowns like those of the calibration"
        return [("unknowns among rejected", text)]

    def __str__(self) -> str:
        groups = [
            f"  {row['group']}: {row['urr']:.4f} of {row['n']} rejected, OSA "
            f"{row['osa']:.4f}, {row['loss']:.4f} below its best"
            for row in self.groups
        ]
        lines = [f"{name}: {text}" for name, text in self.summary]
        return "\n".join([*lines, *groups, *map(str, self.cautions)])

    __repr__ = __str__  # what a notebook shows

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
            "kinds": [list(names) for names in self.kinds],
            "new_kind": None if self.new_kind is None else asdict(self.new_kind),
            "cautions": [asdict(caution) for caution in self.cautions],
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any], threshold: Threshold) -> Self:
        """Read what :meth:`to_dict` returned."""
        flat, new = document["flat"], document.get("new_kind")
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
            kinds=tuple(tuple(names) for names in document.get("kinds", ())),
            new_kind=None
            if new is None
            else Rate(new["name"], new["value"], Interval(**new["interval"])),
            cautions=tuple(Caution(**one) for one in document["cautions"]),
        )


def report(
    scores: Scores, threshold: Threshold, *, near: Scores | None = None
) -> Report:
    """Report how a threshold does on its calibration scores, with cautions.

    Parameters
    ----------
    scores
        The calibration scores, with groups that name kinds of unknowns.
    threshold
        Chosen on them.
    near
        Scores of known classes left out in turn
        (:func:`openset.selection.leave_classes_out`): stand-ins for unknowns that are
        close to the known classes.

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
    (1.0, 'far', ('CAL004', 'CAL008', 'CAL011'))
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
    evidence = CalibrationFacts(scores, threshold, rates)
    new = None
    if scores.n_unknown:
        counts = ranking_counts(scores)
        table = by_group("thresholds.report", scores, threshold.alpha)
        urr, osa = rates.urr, rates.osa(table.alpha)
        rows = _group_rows(scores, accepted, rates, table)
        worst = min(rows, key=lambda row: row["osa"])["group"]
        synthetic = tuple(n for n in table.names if n.startswith(SYNTHETIC_PREFIX))
        kinds = kinds_of(scores, table)
        urr_of_kind = kinds.pooled(np.array([row["urr"] for row in rows]))
        evidence = CalibrationFacts(
            scores,
            threshold,
            rates,
            kinds,
            regret=_regret(table, kinds, rates.ccr, urr_of_kind),
            least_auroc=_least_auroc(counts, table, kinds),
            near=None
            if near is None
            else _near_regret(counts, near, rates.tpr, table.alpha),
        )
        new = new_kind(
            rates.ccr,
            rates.n_known,
            kinds.n,
            urr_of_kind,
            table.alpha,
        )
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
        kinds=() if evidence.kinds is None else evidence.kinds.names,
        new_kind=new,
        cautions=tuple(cautions(evidence)),
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


def _regret(
    table: ByGroup, kinds: Kinds, ccr: float, urr: NDArray[np.float64]
) -> float:
    """Return the most a kind loses against its own best threshold."""
    osa = table.alpha * table.ccr + (1 - table.alpha) * kinds.pooled(table.urr)
    reached = table.alpha * ccr + (1 - table.alpha) * urr
    return float((osa.max(axis=1) - reached).max())


def _least_auroc(counts: RankingCounts, table: ByGroup, kinds: Kinds) -> float:
    """Return the AUROC of the kind that is hardest to tell from the known samples."""
    first = counts.values.size - table.values.size
    at_level = np.diff(counts.known[first:], prepend=0)  # knowns with this very score
    below = kinds.pooled(table.urr)  # unknowns with a lower score
    # Those with this score or a lower one are below the next higher score.
    upto = np.concatenate([np.ones((len(kinds), 1)), below[:, :-1]], axis=1)
    return float(((below + upto) / 2 @ at_level).min() / counts.n_known)


def _near_regret(
    counts: RankingCounts, near: Scores, tpr: float, alpha: float
) -> float:
    """Return what left-out classes lose at the same share of accepted known samples.

    `near` was scored by detectors fitted without some classes: its scores are compared
    by the share of its own known samples that lies below them.
    """
    share = counts.known / counts.n_known
    known = np.sort(near.known[~near.is_unknown])
    unknown = np.sort(near.known[near.is_unknown])
    place = np.round((1 - share) * known.size).astype(np.intp)
    cuts = np.append(known, np.inf)[place]
    rejected = np.searchsorted(unknown, cuts) / unknown.size
    osa = alpha * counts.correct / counts.n_known + (1 - alpha) * rejected
    return float(osa.max() - osa[np.abs(share - tpr).argmin()])


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
