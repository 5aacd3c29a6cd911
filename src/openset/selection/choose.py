"""Choose a detector: a consensus of some, unless one detector is clearly better.

The constants of the rule were tuned on some networks and tested on others:
``docs/results.md``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.detectors import Fitted, combine, make, score_all
from openset.detectors.fitted import by_name
from openset.metrics.counts import ALPHA, Alpha, weight_of
from openset.outputs import Outputs, need_outputs
from openset.outputs.seen import need_unseen
from openset.scores import Scores
from openset.selection.synthetic import mean_rank
from openset.thresholds.kinds import SYNTHETIC_PREFIX, new_kind

CONSENSUS = "consensus"
"""The mean rank, among the known samples, that a few different detectors give."""

MEMBERS = ("msp", "rmds", "vim", "osnn")
"""Detectors of the consensus: they look at different things, and none is weak."""

SIMPLE = ("msp", "maxlogit")
"""Detectors everybody has: the consensus must do at least as well as each."""

_CALLER = "selection.choose"
_UPSIDE_DOWN = 0.5  # AUROC below which a member is left out of the consensus
_LEAST_GAIN = 0.02  # open-set accuracy another detector must gain on every kind
_LEVELS = 200  # thresholds that are compared, at most

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choice:
    """The detector that did best on kinds of unknowns that were left out.

    Pass it to :meth:`openset.Rejector.calibrate`, which takes `fitted` and `alpha` from
    it. `weights` are those of the detectors of a consensus. `ranking` has one row per
    candidate, the chosen one first, with the mean and the worst open-set accuracy on
    kinds left out, the accuracy expected on a new kind with its interval (``new_kind``,
    ``low``, ``high``) and the mean gain over the consensus (``value``). `cells` has one
    row per candidate and kind. `reason` says why this one was chosen.
    """

    name: str
    fitted: Fitted
    alpha: float
    weights: Mapping[str, float]
    n_kinds: int
    reason: str
    ranking: tuple[dict[str, Any], ...] = field(repr=False)
    cells: tuple[dict[str, Any], ...] = field(repr=False)

    def __str__(self) -> str:
        best, name = self.ranking[0], self.name
        if len(self.weights) > 1:
            name += f" of {', '.join(self.weights)}"
        said = (
            f"{name}: expected open-set accuracy on a new kind of unknowns "
            f"{best['new_kind']:.2f} (90% interval {best['low']:.2f} to "
            f"{best['high']:.2f}, for kinds like these)"
        )
        return f"{said}. {self.reason}" if self.reason else said


class Suitable(NamedTuple):
    """Names of detectors, and the reason in a sentence."""

    names: tuple[str, ...]
    reason: str


def suitable(train: Outputs | None) -> Suitable:
    """Return detectors for :func:`choose` to compare, given training outputs.

    They are MSP, RMDS, ViM and OSNN, whose consensus was also good on networks that
    were not used to select them, and MaxLogit, which may be better; without those whose
    inputs (features, last layer) are missing. Without training outputs (None), only
    those that need no fitting.

    Examples
    --------
    >>> suitable(Outputs(logits=[[2.0, 0.0]], labels=[0])).reason
    'msp and maxlogit: rmds, vim and osnn need features'
    """
    recipes = {name: make(name) for name in dict.fromkeys((*SIMPLE, *MEMBERS))}
    if train is not None:
        need_outputs("selection.suitable", "train", train)
    lacking: dict[str, list[str]] = {}  # names, by what they lack first
    for name, one in recipes.items():
        lacks = ["training outputs"] * one.learns
        lacks = lacks if train is None else list(one.missing_from(train))
        what = "".join(lacks[:1]).replace("head", "the weights of the last layer")
        lacking.setdefault(what, []).append(name)
    names = lacking.pop("", [])
    if not names:
        rule, remedy = "with logits, or features and labels", "Name a detector instead"
        _check.fail("selection.suitable", "train", rule, train, remedy)
    reasons = [
        f"{_listed(them)} need{'s' * (len(them) == 1)} {what}"
        for what, them in lacking.items()
    ]
    why = f": {'; '.join(reasons)}" if reasons else ", which use different information"
    alone = " alone" * (len(names) == 1)
    return Suitable(tuple(names), f"{_listed(names)}{alone}{why}")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def choose(
    fitted: Mapping[str, Fitted] | Sequence[Fitted],
    *,
    known: Outputs,
    surrogate: Outputs,
    alpha: Alpha = ALPHA,
    batch_size: int | None = None,
) -> Choice:
    r"""Choose a detector for kinds of unknowns that are not given.

    The choice is the *consensus* of MSP, RMDS, ViM and OSNN (of those given): its score
    is the share of known samples that score lower, averaged over the detectors. MSP or
    MaxLogit is chosen instead if its open-set accuracy is higher on average over the
    kinds of unknowns, each measured with a threshold chosen without that kind; any
    other detector only if it is better by more than 0.02 on every kind. With one kind
    the consensus is chosen, since one kind says nothing about others. If none of the
    four is given, the first detector takes the place of the consensus.

    Parameters
    ----------
    fitted
        Fitted detectors; a mapping gives them names.
    known
        Labelled outputs the detectors were not fitted on.
    surrogate
        Outputs of unknowns, with `groups` that name the kind of each.
    alpha
        Weight of the known samples, to choose thresholds and to compare candidates; by
        default 0.5. ``"counts"`` takes the share of known samples.
    batch_size
        Samples scored at a time.

    Examples
    --------
    >>> from openset.detectors import MSP, MaxLogit
    >>> logits = [[4.0, 0.0], [0.0, 3.0], [1.0, 0.9], [9.0, 8.9]]
    >>> known = Outputs(logits=logits[:2], labels=[0, 1])
    >>> surrogate = Outputs(logits=logits[2:], groups=["near", "far"])
    >>> fitted = [MSP().fit(), MaxLogit().fit()]
    >>> choice = choose(fitted, known=known, surrogate=surrogate)
    >>> choice.name, [row["mean"] for row in choice.ranking]
    ('msp', [1.0, 1.0, 0.75])
    """
    named = _named(fitted)
    _need_sides(known, surrogate)
    for one in named.values():
        need_unseen(_CALLER, "known", known, one.seen)
    of_known, of_unknown = (
        score_all(named, part, batch_size=batch_size)
        for part in (known, surrogate.as_unknown())
    )
    both = [next(iter(part.values())) for part in (of_known, of_unknown)]
    weight = float(weight_of(_CALLER, alpha, len(both[0]), len(both[1])))
    kinds, place = _kinds(both[1])
    columns = {
        name: _Column(one.known, of_unknown[name].known, one.is_correct)
        for name, one in of_known.items()
    }
    # The members of the consensus; the first detector if there is none.
    by_method = {one.detector.name: name for name, one in reversed(named.items())}
    offered = [by_method[name] for name in MEMBERS if name in by_method]
    offered = offered or [next(iter(named))]
    used = [n for n in offered if columns[n].auroc(place) >= _UPSIDE_DOWN] or offered
    columns[CONSENSUS] = _consensus([columns[name] for name in used])
    rates = {name: one.rates(place) for name, one in columns.items()}
    left_out = {name: _left_out(one, weight) for name, one in rates.items()}
    gain = {name: osa - left_out[CONSENSUS] for name, osa in left_out.items()}
    simple = {n for n, one in named.items() if one.detector.name in SIMPLE}
    # Sums of shares round: no gain.
    able = {
        n: round(float(one.mean()), 12)
        for n, one in gain.items()
        if len(kinds) > 1 and (n in simple or (one > _LEAST_GAIN).all())
    }
    best = max(able, key=lambda n: able[n], default=CONSENSUS)
    best = best if able.get(best, 0.0) > 0 else CONSENSUS
    sizes = np.bincount(place[place >= 0])

    def row(name: str) -> dict[str, Any]:
        (ccr, urr), osa = rates[name], left_out[name]
        at = rates[name].at(range(len(kinds)), weight)
        expected = new_kind(float(ccr[at]), len(known), sizes, urr[:, at], weight)
        span = expected.interval
        return {
            "detector": name,
            "mean": float(osa.mean()),
            "worst": float(osa.min()),
            "worst_group": kinds[osa.argmin()],
            "new_kind": expected.value,
            **({} if span is None else {"low": span.low, "high": span.high}),
            "value": float(gain[name].mean()),
        }

    order = sorted(columns, key=lambda n: (n != best, -gain[n].mean()))
    chosen = used if best == CONSENSUS else [best]
    made = named[chosen[0]]
    if len(chosen) > 1:
        reference = [columns[name].known for name in chosen]
        made = combine([named[n] for n in chosen], reference=reference)
    return Choice(
        name=best if len(chosen) > 1 else chosen[0],
        fitted=made,
        alpha=weight,
        weights=dict.fromkeys(chosen, 1 / len(chosen)),
        n_kinds=len(kinds),
        reason=_reason(best, simple, len(kinds)) if len(named) > 1 else "",
        ranking=tuple(map(row, order)),
        cells=tuple(
            {"detector": n, "group": kind, "oosa": float(left_out[n][i])}
            for n in columns
            for i, kind in enumerate(kinds)
        ),
    )


class _Rates(NamedTuple):
    """CCR, and URR of each kind, at thresholds from the loosest to the strictest."""

    ccr: Floats
    urr: Floats  # (kinds, thresholds)

    def at(self, chosen_on: Sequence[int], alpha: float) -> int:
        """Return the place of the threshold with the best accuracy on some kinds."""
        # Of equal ones the smallest threshold; sums of shares round: no difference.
        osa = alpha * self.ccr + (1 - alpha) * self.urr[chosen_on].mean(axis=0)
        return int(np.round(osa, 12).argmax())


@dataclass(frozen=True, eq=False)
class _Column:
    """Scores of one candidate, and which known samples it classifies correctly."""

    known: Floats
    unknown: Floats
    is_right: NDArray[np.bool_]

    def auroc(self, place: NDArray[np.intp]) -> float:
        """Return the mean AUROC over kinds; samples at -1 are of none."""
        below = mean_rank(self.known[:, None], self.unknown[:, None])
        each = range(int(place.max()) + 1)
        return float(np.mean([1 - below[place == kind].mean() for kind in each]))

    def rates(self, place: NDArray[np.intp]) -> _Rates:
        """Count at most 200 known scores as thresholds, and one above all."""
        ordered, right = np.sort(self.known), np.sort(self.known[self.is_right])
        n = ordered.size
        levels = np.linspace(0, n - 1, min(n, _LEVELS)).round().astype(int)
        values = np.append(ordered[np.unique(levels)], np.inf)
        each = range(int(place.max()) + 1)
        parts = [np.sort(self.unknown[place == kind]) for kind in each]
        return _Rates(
            ccr=(right.size - np.searchsorted(right, values)) / n,
            urr=np.stack([np.searchsorted(x, values) / x.size for x in parts]),
        )


def _consensus(members: Sequence[_Column]) -> _Column:
    """Average ranks among the known samples; the first member names the class."""
    known = np.column_stack([one.known for one in members])
    unknown = np.column_stack([one.unknown for one in members])
    ranks = mean_rank(known, known), mean_rank(known, unknown)
    return _Column(*ranks, members[0].is_right)


def _left_out(rates: _Rates, alpha: float) -> Floats:
    """Return the accuracy on each kind, the threshold chosen on the other kinds."""
    kinds = range(len(rates.urr))
    found = []
    for kind in kinds:
        at = rates.at([other for other in kinds if other != kind] or [kind], alpha)
        found.append(alpha * rates.ccr[at] + (1 - alpha) * rates.urr[kind, at])
    return np.array(found)


def _kinds(unknown: Scores) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Return the kinds, which are the groups, and that of each sample.

    Synthetic groups are kinds only if there are no others: else their samples have -1.
    """
    groups = unknown.unknown_groups
    real = [not name.startswith(SYNTHETIC_PREFIX) for name in groups.names]
    kept = np.array(real if any(real) else [True] * len(real))
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    names = tuple(n for n, is_kept in zip(groups.names, kept, strict=True) if is_kept)
    return names, number[groups.index]


def _need_sides(known: Outputs, surrogate: Outputs) -> None:
    need_outputs(_CALLER, "known", known)
    remedy = "Join several with Outputs.concat; make some with selection.synthetic"
    need_outputs(_CALLER, "surrogate", surrogate, remedy)
    if known.labels is None or int(known.labels.min()) == UNKNOWN:
        rule = "labelled samples of known classes"
        got = "samples without labels or of unknown classes"
        _check.fail(_CALLER, "known", rule, got)
    if surrogate.labels is not None and int(surrogate.labels.max()) != UNKNOWN:
        got = "samples of known classes among them"
        _check.fail(_CALLER, "surrogate", "unknown samples only", got)


def _named(fitted: Mapping[str, Fitted] | Sequence[Fitted]) -> dict[str, Fitted]:
    named = by_name(_CALLER, [fitted] if isinstance(fitted, Fitted) else fitted)
    if not named or CONSENSUS in named:
        rule = f"some detectors, none of them called {CONSENSUS!r}"
        _check.fail(_CALLER, "fitted", rule, ", ".join(named) or "none")
    return named


def _reason(name: str, simple: Collection[str], n_kinds: int) -> str:
    """Say why the rule chose this one of several candidates."""
    if n_kinds == 1:
        why = "results on one kind of unknowns do not show which detector"
        return f"It is the default: {why} is best on others"
    if name == CONSENSUS:
        why = "no other detector gained two points on every kind left out"
        return f"It is the default: {why}, nor did MSP or MaxLogit do better on average"
    if name in simple:
        return "It is better than the default on average over the kinds left out"
    return "It gains more than two points over the default on every kind left out"
