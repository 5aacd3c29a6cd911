"""What calibration data say about a threshold, with coded cautions."""

import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from openset.metrics import Rates
from openset.metrics.counts import ALPHA, ranking_counts
from openset.scores import Scores, need_known
from openset.thresholds.kinds import (
    SYNTHETIC_PREFIX,
    ByGroup,
    by_group,
    is_synthetic,
    new_kind,
)
from openset.thresholds.threshold import Rate, Threshold
from openset.thresholds.traffic import at_prevalence

_EDGE = 0.005  # share of scores beyond a threshold that is at the edge of them
_ALMOST = 0.95  # "almost all" of one side
_DISAGREE = 0.05  # open-set accuracy a kind may lose against its own best threshold
_NEAR = 0.02  # the same for known classes left out
_FEW = 60  # samples of a side, or of a kind
_CHANCE = 0.1  # share of the other classes' samples a network should get right at least
_COVERED = 0.5  # share of the classes that calibration should have samples of
_MOSTLY_KNOWN = 0.9  # weight of the known samples that needs an explanation
_BLIND = 0.5  # AUROC of scores that know nothing

# A rate that was asked for may well be at the edge of the scores.
_BY_RATE = ("at_fpr", "at_tpr", "conformal")
_SHARES = (0.01, 0.1)  # of unknown samples, to show what a rejection means there
_NAMES = {
    "osa": "open-set accuracy",
    "osa of the hardest group": "open-set accuracy, hardest group",
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "false_unknown": "known samples to be rejected",
    "cost": "cost of a decision",
}

Severity: TypeAlias = Literal["error", "warning"]

_TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Caution:
    """A sign that a threshold will not hold. Codes keep their meaning.

    An ``"error"`` predicts collapse: :meth:`openset.Rejector.calibrate` refuses the
    threshold unless ``accept_risk=True``. A ``"warning"`` is issued, kept with the
    rejector, and repeated wherever it is used.

    ======  ==========================================================================
    CAL001  (error) the threshold is at the edge of the scores
    CAL002  (error) almost all unknowns are accepted, or almost all known samples
            rejected
    CAL003  kinds of unknowns need different thresholds
    CAL004  few samples
    CAL005  the surrogate unknowns are synthetic
    CAL007  the predicted classes of the known samples hardly ever match their labels
    CAL009  the known samples cover few of the classes
    CAL010  no unknowns were used
    CAL011  known classes left out need another threshold, or were not tried
    CAL012  a kind of unknowns scores as high as the known samples
    ======  ==========================================================================
    """

    code: str
    message: str
    severity: Severity = "warning"

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, eq=False)
class Report:
    """What a threshold does on its calibration samples; print it to read it.

    `rates` are the counts of its decisions, `groups` has one row per group of unknowns:
    its name, size, URR, OSA, best OSA with a threshold of its own, and the loss, the
    difference of the two. `new_kind` is the open-set accuracy to expect of one more
    kind of unknowns, with its interval (None without unknowns).
    """

    threshold: Threshold
    rates: Rates
    groups: tuple[dict[str, Any], ...]
    new_kind: Rate | None
    cautions: tuple[Caution, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the cautions."""
        return tuple(caution.code for caution in self.cautions)

    @property
    def alpha(self) -> float:
        """Weight of the known samples in every open-set accuracy."""
        return ALPHA if self.threshold.alpha is None else self.threshold.alpha

    @property
    def osa(self) -> float | None:
        """Open-set accuracy; None without unknown samples."""
        return self.rates.osa(self.alpha) if self.rates.n_unknown else None

    @property
    def worst_group(self) -> str | None:
        """The group of unknowns with the lowest open-set accuracy."""
        worst = min(self.groups, key=lambda row: row["osa"], default={"group": None})
        return worst["group"]

    @property
    def summary(self) -> Iterator[tuple[str, str]]:
        """The report as names and values, without groups and cautions."""
        rate, rates, weight = self.threshold.rate, self.rates, f"alpha {self.alpha:g}"
        value = f"{rate.value:.4f}"
        if rate.interval is not None:
            value += f" ({rate.interval.low:.4f}–{rate.interval.high:.4f})"
        name = _NAMES.get(rate.name, rate.name)
        yield "threshold", str(self.threshold)
        yield f"{name}, {weight}" if "osa" in rate.name else name, value
        if self.alpha >= _MOSTLY_KNOWN and "osa" in rate.name:
            unknown = 100 * (1 - self.alpha)
            yield weight, _TEXTS["mostly_known"].format(unknown=unknown)
        yield "known samples accepted", f"{rates.tpr:.1%}"
        if rates.n_unknown:
            yield "unknown samples rejected", f"{rates.urr:.1%}"
        yield "accuracy without rejection", f"{rates.accuracy:.4f}"
        if self.new_kind is not None and self.new_kind.interval is not None:
            facts = asdict(self.new_kind.interval) | {"value": self.new_kind.value}
            text = _TEXTS["new_kind"].format(**facts, weight=weight)
            yield "on a new kind of unknowns", text
        if rates.n_unknown and rates.n_rejected:
            shares = [
                f"{at_prevalence(rates, p).unknown_precision:.0%} if {p:.0%} of all "
                "samples are unknown"
                for p in _SHARES
            ]
            text = f"{', '.join(shares)}, for unknowns like those of the calibration"
            yield "unknowns among rejected", text

    def __str__(self) -> str:
        groups = [
            f"  {row['group']}: {row['urr']:.4f} of {row['n']} rejected, OSA "
            f"{row['osa']:.4f} (alpha {self.alpha:g}), {row['loss']:.4f} below its best"
            for row in self.groups
        ]
        lines = [f"{name}: {text}" for name, text in self.summary]
        return "\n".join([*lines, *groups, *map(str, self.cautions)])

    __repr__ = __str__  # what a notebook shows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the threshold itself."""
        return {
            "osa": self.osa,
            "alpha": self.alpha,
            "rates": asdict(self.rates),
            "groups": list(self.groups),
            "new_kind": None if self.new_kind is None else asdict(self.new_kind),
            "cautions": [asdict(caution) for caution in self.cautions],
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any], threshold: Threshold) -> Self:
        """Read what :meth:`to_dict` returned."""
        new = document["new_kind"]
        return cls(
            threshold=threshold,
            rates=Rates(**document["rates"]),
            groups=tuple(document["groups"]),
            new_kind=None if new is None else Rate.from_dict(new),
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
    (1.0, 'far', ('CAL004', 'CAL011'))
    """
    need_known("thresholds.report", scores)
    rates = threshold.rates(scores)
    cautions = [*_collapse(scores, threshold, rates), *_labels(scores, rates)]
    rows: list[dict[str, Any]] = []
    kinds: list[dict[str, Any]] = []
    new = None
    if scores.n_unknown:
        table = by_group(scores, ALPHA if threshold.alpha is None else threshold.alpha)
        for row, of_group, best in table.rows(rates, threshold.value):
            osa = of_group.osa(table.alpha)
            rows.append(row | {"osa": osa, "best": best, "loss": best - osa})
        kinds = [rows[i] for i in table.kinds]
        sizes, urr = zip(*((row["n"], row["urr"]) for row in kinds), strict=True)
        new = new_kind(rates.ccr, rates.n_known, sizes, urr, table.alpha)
        cautions += _of_kinds(table, kinds)
        cautions += _near(scores, near, rates.tpr, table)
    else:
        cautions.append(_caution("CAL010"))
    cautions += _few(scores.n_known, kinds)
    by_code = sorted(cautions, key=lambda one: one.code)
    return Report(threshold, rates, tuple(rows), new, tuple(by_code))


def _caution(name: str, severity: Severity = "warning", **facts: Any) -> Caution:
    return Caution(name[:6], _TEXTS[name].format(**facts), severity)


def _collapse(scores: Scores, threshold: Threshold, rates: Rates) -> Iterator[Caution]:
    severity: Severity = "warning" if threshold.method in _BY_RATE else "error"
    below = float(np.count_nonzero(scores.known < threshold.value) / len(scores))
    if not _EDGE <= below <= 1 - _EDGE:
        end = "lowest" if below < _EDGE else "highest"
        facts = {"value": threshold.value, "end": end, "below": below}
        yield _caution("CAL001", severity, **facts)
    right = [("known", "rejected", rates.tpr)]
    if rates.n_unknown:
        right.append(("unknown", "accepted", rates.urr))
    for side, fate, rate in right:
        if rate < 1 - _ALMOST:
            yield _caution("CAL002", severity, side=side, fate=fate, share=1 - rate)


def _of_kinds(table: ByGroup, kinds: list[dict[str, Any]]) -> Iterator[Caution]:
    lost = max(row["loss"] for row in kinds)
    if lost > _DISAGREE:
        yield _caution("CAL003", lost=lost)
    names = [row["group"] for row in kinds]
    if all(map(is_synthetic, names)):
        made = ", ".join(name.removeprefix(SYNTHETIC_PREFIX) for name in names)
        yield _caution("CAL005", made=made)
    auroc = float(table.auroc[table.kinds].min())
    if auroc <= _BLIND:
        which = "the unknown samples" if len(kinds) == 1 else "unknowns of a kind"
        yield _caution("CAL012", which=which, auroc=auroc)


def _near(
    scores: Scores, near: Scores | None, tpr: float, table: ByGroup
) -> Iterator[Caution]:
    """Say whether unknowns that resemble the known classes need another threshold.

    `near` was scored by detectors fitted without some classes: its scores are compared
    by the share of its own known samples that lies below them, at the same share of
    accepted known samples.
    """
    if near is None:
        yield _caution("CAL011_not_checked")
        return
    counts = ranking_counts(scores)
    share = counts.known / counts.n_known
    known = np.sort(near.known[~near.is_unknown])
    unknown = np.sort(near.known[near.is_unknown])
    place = np.round((1 - share) * known.size).astype(np.intp)
    cuts = np.append(known, np.inf)[place]
    rejected = np.searchsorted(unknown, cuts) / unknown.size
    ccr = counts.correct / counts.n_known
    osa = table.alpha * ccr + (1 - table.alpha) * rejected
    lost = float(osa.max() - osa[np.abs(share - tpr).argmin()])
    if lost > _NEAR:
        yield _caution("CAL011", lost=lost)


def _few(n_known: int, kinds: list[dict[str, Any]]) -> Iterator[Caution]:
    text = "{n} unknown samples" + " of {group}" * (len(kinds) > 1)
    few = [f"{n_known} known samples"] * (n_known < _FEW)
    few += [text.format(**row) for row in kinds if row["n"] < _FEW]
    if few:
        yield _caution("CAL004", few=", ".join(few))


def _labels(scores: Scores, rates: Rates) -> Iterator[Caution]:
    labels = scores.labels[~scores.is_unknown]
    commonest = np.bincount(labels).max() / scores.n_known
    if commonest < 1 and rates.accuracy < commonest + _CHANCE * (1 - commonest):
        yield _caution("CAL007", accuracy=rates.accuracy, commonest=commonest)
    covered, n_classes = np.unique(labels).size, scores.n_classes
    if n_classes is not None and covered < _COVERED * n_classes:
        yield _caution("CAL009", covered=covered, n_classes=n_classes)
