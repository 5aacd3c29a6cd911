"""Will the threshold hold? What calibration data can tell, with coded cautions."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from openset import _check
from openset.metrics import osa_optimum
from openset.scores import Scores, need_scores
from openset.thresholds._groups import ByGroup, by_group, group_of_unknowns
from openset.thresholds._table import Table
from openset.thresholds._threshold import Span, Threshold, need_threshold

ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""Weights of the known side over which a threshold's movement is reported."""

SYNTHETIC = "synthetic:"
"""How the groups of made-up unknowns begin."""

_NEAR = 0.01  # "as good as the best": within one point of open-set accuracy
_EDGE = 0.005  # share of scores beyond a threshold that sits at the edge
_ALMOST = 0.95  # "almost all" of one side
_DISAGREE = 0.05  # points of accuracy one kind of unknowns may cost another
_FEW = 50
_KINDS = 3  # kinds of unknowns that begin to speak for kinds not seen
_CHANCE = 0.1  # share of what the commonest class leaves that a network should get


@dataclass(frozen=True)
class Caution:
    """Something to look at before a threshold is trusted; `code` never changes.

    CAL001 the threshold sits at the edge of the scores; CAL002 almost all unknowns are
    accepted, or almost all knowns rejected; CAL003 the groups of unknowns want
    different thresholds; CAL004 few samples; CAL005 the surrogate is synthetic; CAL006
    one or two kinds of unknowns only, which say little about a third; CAL007 the knowns
    are hardly ever given the class they are labelled with.
    """

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, eq=False)
class Report:
    """How a threshold does on its calibration samples, and how much hangs on it.

    `flat` spans the thresholds around it within one point of the best open-set
    accuracy, `flat_share` is the share of calibration samples scored inside: large is
    good. `groups` has a row per kind of unknowns, `alphas` one per weight of the known
    side (thresholds of :func:`osa`). `accuracy` is that of the knowns, were all
    accepted (None in old reports). Without unknowns only the known side is reported.
    Print it to read it.
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
        """Codes of the cautions."""
        return tuple(caution.code for caution in self.cautions)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What there is to say, but for the groups and the cautions."""
        rate, found = self.threshold.rate, []
        span = rate.interval
        known = f"{self.accepted_known:.1%} of the known samples accepted"
        unknown = (
            "" if self.urr is None else f", {self.urr:.1%} of the unknown rejected"
        )
        is_promise = self.threshold.method == "conformal"
        found.append(
            f"{rate.name} {rate.value:.4f}"
            + ("" if span is None else f" ({span.low:.4f}–{span.high:.4f})")
            + (" expected of new samples" if is_promise else " on the calibration data")
            + f"; {known}{unknown}"
            + (" there" if is_promise else "")
        )
        if self.accuracy is not None:
            found.append(
                f"closed-set accuracy of the known samples {self.accuracy:.4f}"
            )
        if self.threshold.method == "worst_group" and len(self.groups) > 1:
            loss = max(row["loss"] for row in self.groups)
            found.append(
                f"no kind of unknowns loses more than {loss:.4f} against the threshold "
                "that is best for it"
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
    is_known = ~scores.is_unknown
    ccr = float(np.count_nonzero(accepted & scores.is_correct) / scores.n_known)
    tpr = float(np.count_nonzero(accepted & is_known) / scores.n_known)
    osa = urr = flat = flat_share = worst = None
    rows: list[dict[str, Any]] = []
    alphas: list[dict[str, Any]] = []
    synthetic: tuple[str, ...] = ()
    clash = 0.0
    if scores.n_unknown:
        urr = float(np.count_nonzero(~accepted & scores.is_unknown) / scores.n_unknown)
        table = by_group("thresholds.report", scores, threshold.alpha)
        osa = table.alpha * ccr + (1 - table.alpha) * urr
        rows = _group_rows(scores, accepted, ccr, table)
        worst = min(rows, key=lambda row: row["osa"])["group"]
        synthetic = tuple(n for n in table.names if n.startswith(SYNTHETIC))
        clash = _clash(table, synthetic)
        if not threshold.per_class:
            flat, flat_share = _flatness(scores, table, threshold.value)
        alphas = _alpha_rows(scores)
    return Report(
        threshold=threshold,
        osa=osa,
        ccr=ccr,
        accepted_known=tpr,
        accuracy=float(np.count_nonzero(scores.is_correct) / scores.n_known),
        urr=urr,
        flat=flat,
        flat_share=flat_share,
        worst_group=worst,
        synthetic=synthetic,
        groups=Table(tuple(rows)),
        alphas=Table(tuple(alphas)),
        cautions=tuple(
            _cautions(
                scores, threshold, tpr=tpr, urr=urr, clash=clash, synthetic=synthetic
            )
        ),
    )


def _group_rows(
    scores: Scores, accepted: Any, ccr: float, table: ByGroup
) -> list[dict[str, Any]]:
    names, place = group_of_unknowns(scores)
    rejected = np.bincount(place, weights=~accepted[scores.is_unknown])
    rows = []
    for i, name in enumerate(names):
        urr = float(rejected[i] / table.n[i])
        osa = table.alpha * ccr + (1 - table.alpha) * urr
        # One threshold per class may do better than the best single one.
        best = max(float(table.osa[i].max()), osa)
        rows.append(
            {
                "group": name,
                "n": int(table.n[i]),
                "urr": urr,
                "osa": osa,
                "best": best,
                "loss": best - osa,
            }
        )
    return rows


def _clash(table: ByGroup, synthetic: tuple[str, ...]) -> float:
    """Most a group loses at the threshold that is best for another."""
    is_real = ~np.isin(table.names, synthetic)
    chosen = is_real if is_real.any() else ~is_real
    best = table.osa[chosen].argmax(axis=1)
    return float(table.regret[np.ix_(chosen, best)].max())


def _flatness(scores: Scores, table: ByGroup, value: float) -> tuple[Span, float]:
    """Thresholds around `value` within a point of the best, and the samples there."""
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


def _alpha_rows(scores: Scores) -> list[dict[str, Any]]:
    rows = []
    for alpha in ALPHAS:
        best = osa_optimum(scores, alpha=alpha)
        accepted = scores.known >= best.threshold
        known = np.count_nonzero(accepted & ~scores.is_unknown) / scores.n_known
        urr = np.count_nonzero(~accepted & scores.is_unknown) / scores.n_unknown
        rows.append(
            {
                "alpha": alpha,
                "threshold": best.threshold,
                "osa": best.value,
                "accepted_known": float(known),
                "urr": float(urr),
            }
        )
    return rows


def _cautions(
    scores: Scores,
    threshold: Threshold,
    *,
    tpr: float,
    urr: float | None,
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
            f"the threshold {threshold.value:.4g} sits at the {end} scores: "
            f"{below:.1%} of the calibration samples lie below it",
        )
    if tpr < 1 - _ALMOST:
        add("CAL002", f"{1 - tpr:.1%} of the known samples are rejected")
    if urr is not None and urr < 1 - _ALMOST:
        add("CAL002", f"{1 - urr:.1%} of the unknown samples are accepted")
    if clash > _DISAGREE:
        advice = (
            "This one is the fairest to all; choosing among detectors may help"
            if threshold.method == "worst_group"
            else "Consider the objective worst_group, or choosing among detectors"
        )
        add(
            "CAL003",
            f"the groups of unknowns disagree: the best threshold for one costs "
            f"another up to {clash:.1%} of open-set accuracy. {advice}",
        )
    few = [
        f"{n} {side}"
        for side, n in (("known", scores.n_known), ("unknown", scores.n_unknown))
        if 0 < n < _FEW
    ]
    if few:
        add("CAL004", f"few calibration samples: {' and '.join(few)}")
    n_kinds = len(group_of_unknowns(scores)[0])
    n_real = n_kinds - len(synthetic)
    if synthetic and not n_real:
        kinds = ", ".join(name.removeprefix(SYNTHETIC) for name in synthetic)
        add(
            "CAL005",
            f"the surrogate is synthetic ({kinds}): made from known data, it shows how "
            f"the threshold behaves, not how your unknowns do",
        )
    n_kinds = n_real or n_kinds
    if scores.n_unknown and n_kinds < _KINDS:
        add(
            "CAL006",
            f"{'one kind' if n_kinds == 1 else 'two kinds'} of unknowns only: that "
            f"says little about how the threshold does on another. Give groups, or "
            f"more kinds",
        )
    accuracy = np.count_nonzero(scores.is_correct) / scores.n_known
    commonest = np.bincount(scores.labels[~scores.is_unknown]).max() / scores.n_known
    if commonest < 1 and accuracy < commonest + _CHANCE * (1 - commonest):
        add(
            "CAL007",
            f"only {accuracy:.1%} of the known samples are given the class they are "
            f"labelled with ({commonest:.1%} are of one class). Are the labels in the "
            f"order of the network's outputs, and of the same samples?",
        )
    return found
