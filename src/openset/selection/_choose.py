"""Choose a detector and an objective by their results on left-out kinds of unknowns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from openset import _check
from openset._progress import bar
from openset.detectors import Fitted, combine
from openset.metrics.counts import ALPHA
from openset.outputs import Outputs, need_outputs
from openset.selection._candidates import (
    ONE,
    RANK,
    STACKING,
    Criterion,
    Data,
)
from openset.selection._leave_kind_out import ranked, trials_of, turns_of
from openset.selection._robust import CONSENSUS, SIMPLE, candidates_of, decide
from openset.thresholds import check_options
from openset.thresholds import objectives as objective_names
from openset.thresholds.alpha import Alpha
from openset.thresholds.prices import Prices
from openset.thresholds.table import Table

_MOST_BELOW = 0.15
"""A combination this far below the best single detector is not chosen."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The detector and the objective that were best on left-out kinds of unknowns.

    Pass it to :meth:`openset.Rejector.calibrate`, which takes `fitted`, `objective` and
    its `options` from it. `ranking` has one row per candidate and objective: the chosen
    one, then the others by value. `cells` has one row per candidate, objective and
    left-out group. `weights` are those of the combined detectors. `measure` is what
    ``mean`` and ``worst`` refer to: open-set accuracy (``"oosa"``), or ``"cost"`` if
    the objective is ``"by_cost"``. `left_out` is what was left out in turn: ``"kinds"``
    (``"nothing"`` if there is one kind only); with given objectives ``"groups"``, or
    ``"samples"`` if the surrogate has only one group. With the default rule, ``value``
    is the mean gain over the consensus, and the rows also have the accuracy expected on
    a new kind and its interval (``new_kind``, ``low``, ``high``); `reason` says why
    this one of several candidates was chosen.
    """

    name: str
    fitted: Fitted
    objective: str
    options: Mapping[str, Any]
    alpha: float
    by: str
    measure: str
    left_out: str
    weights: Mapping[str, float]
    ranking: Table = field(repr=False)
    cells: Table = field(repr=False)
    reason: str = ""

    @property
    def is_combined(self) -> bool:
        """Whether several detectors were combined."""
        return len(self.weights) > 1

    def __str__(self) -> str:
        best, name = self.ranking[0], self.name
        if self.name == CONSENSUS:
            name += f" of {', '.join(self.weights)}"
        if self.by == "new kind":
            said = (
                f"{name}: expected open-set accuracy on a new kind of unknowns "
                f"{best['new_kind']:.2f} (90% interval {best['low']:.2f} to "
                f"{best['high']:.2f}, for kinds like these)"
            )
            return f"{said}. {self.reason}" if self.reason else said
        if self.is_combined:
            parts = sorted(self.weights.items(), key=lambda pair: -pair[1])
            name += f" of {', '.join(f'{n} ({w:.0%})' for n, w in parts)},"
        cost = "a cost of " if self.measure == "cost" else ""
        return (
            f"{name} with objective {self.objective}: {cost}{best['mean']:.3f} on "
            f"average and {best['worst']:.3f} at worst ({best['worst_group']}) on "
            f"{self.left_out} left out"
        )


def choose(
    fitted: Mapping[str, Fitted] | Sequence[Fitted],
    *,
    known: Outputs,
    surrogate: Outputs,
    objectives: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    alpha: Alpha = None,
    by: Criterion = "both",
    combined: bool = True,
    min_gain: float = 0.005,
    folds: int = 5,
    batch_size: int | None = None,
    progress: bool = False,
    rng: np.random.Generator | int = 0,
) -> Choice:
    r"""Choose a detector and a threshold rule, for kinds of unknowns not given.

    By default the choice is the *consensus* of MSP, RMDS, ViM and OSNN (of those
    given): its score is the share of known samples that score lower, averaged over the
    detectors. MSP or MaxLogit is chosen instead if its open-set accuracy is higher on
    average over the kinds of unknowns, each measured with a threshold chosen without
    that kind; any other detector only if it is better by more than 0.02 on every kind.
    Kinds are groups whose scores differ beyond noise (:mod:`openset.thresholds.kinds`).
    With one kind the consensus is chosen, since one kind says nothing about others. The
    threshold is chosen by :func:`openset.thresholds.anchored`; by
    :func:`openset.thresholds.osa` for MSP and MaxLogit, and if only one of the four is
    given, so that there is no consensus. If none of the four is given, the first
    detector takes the place of the consensus. ``docs/results/operating.md`` shows how
    well this works.

    With `objectives`, detectors are ranked as follows. Each group of the surrogate is
    left out in turn: thresholds are chosen without it, and the open-set accuracy is
    measured on it. Known samples are divided into folds, so that no sample is used to
    choose the threshold it is evaluated with. Two combinations are candidates as well:
    the average of the ranks of the best three detectors, and a logistic regression on
    the ranks of all, learnt again in each turn. A combination is chosen if it gains
    more than `min_gain` over the row ``"choosing one"`` (in each turn, the single
    detector that separates the calibration part best) and is less than 0.15 below the
    best single detector.

    Parameters
    ----------
    fitted
        Fitted detectors; a mapping gives them names.
    known
        Labelled outputs the detectors were not fitted on.
    surrogate
        Outputs of unknowns, with `groups` that name the kind of each.
    objectives
        Names of objectives to compare (:func:`openset.thresholds.objectives`); by
        default the rule above. Candidates are compared by open-set accuracy with weight
        `alpha`, whatever their objective; by cost if ``"by_cost"`` is the only one.
    options
        Options of the objectives: ``{"fpr": 0.01}`` for ``objectives=["at_fpr"]``.
    alpha
        Weight of the known samples, to choose thresholds and to compare candidates; by
        default 0.5. ``"counts"`` takes the share of known samples.
    by
        Rank by the ``"mean"`` over left-out groups, by the ``"worst"`` of them, or by
        the mean of the two (``"both"``).
    combined
        Include the combinations.
    min_gain
        What a combination must gain over ``"choosing one"``; with ``"by_cost"``, as a
        share of the cost of deciding wrongly about every sample. -1 chooses the best
        combination whatever it gains.
    folds
        Number of parts the known samples are divided into.
    batch_size
        Samples scored at a time.
    progress
        Show a progress bar in a terminal.
    rng
        Seed or generator that divides the known samples.

    Notes
    -----
    Confidence intervals are about other samples of the same kinds of unknowns. They say
    nothing about kinds of unknowns that are not in the surrogate.
    """
    caller = "selection.choose"
    named = _named(caller, fitted)
    _check.one_of(caller, "by", by, ["both", "mean", "worst"])
    compared = None if objectives is None else _objectives(caller, objectives)
    _check.number(caller, "min_gain", min_gain)
    need_outputs(caller, "known", known)
    need_outputs(
        caller,
        "surrogate",
        surrogate,
        "Join several with Outputs.concat; make some with selection.synthetic",
    )
    share = _share(caller, alpha, len(known), len(surrogate))
    data = Data.of(caller, named, known, surrogate, batch_size, alpha=share, by=by)
    if compared is None:
        return _robust_choice(named, data, known)
    is_cost = compared == ("by_cost",)
    prices = _prices(caller, options) if is_cost else None
    if prices is not None:
        data = replace(data, known_side=prices.known_side(share))
    generator = np.random.default_rng(rng)
    turns = turns_of(caller, data, folds, generator)
    candidates = list(named)
    if combined and len(named) > 1 and data.has_ranks:
        candidates += [RANK, STACKING, ONE]
    trials = [
        trial
        for candidate in bar(candidates, "choosing", show=progress)
        for trial in trials_of(
            data,
            turns,
            candidate,
            objectives=compared,
            options=options,
            prices=prices,
        )
    ]
    ranking = ranked(trials, data, prices)
    best = _winner(ranking, set(named), min_gain)
    weights = {best["detector"]: 1.0}
    winner = named.get(best["detector"])
    if winner is None:
        winner, weights = _combination(best["detector"], named, data, known)
    others = [row for row in ranking if row is not best]
    return Choice(
        name=best["detector"],
        fitted=winner,
        objective=best["objective"],
        options=dict(options or {}),
        alpha=share,
        by=by,
        measure="cost" if is_cost else "oosa",
        left_out="groups" if turns.by_groups else "samples",
        weights=weights,
        ranking=Table((best, *others)),
        cells=Table(tuple(one.cell(share, is_cost=is_cost) for one in trials)),
    )


def _objectives(caller: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the objectives, each once."""
    found = tuple(dict.fromkeys([given] if isinstance(given, str) else given))
    if not found:
        rule = f"one or more of {', '.join(objective_names())}"
        msg = _check.must(rule, caller=caller, name="objectives", got="none")
        raise ValueError(msg)
    for one in found:
        _check.one_of(caller, "objectives", one, objective_names())
    return found


def _combination(
    kind: str, named: Mapping[str, Fitted], data: Data, known: Outputs
) -> tuple[Fitted, dict[str, float]]:
    """Learn a combination from all samples; return its weights, too."""
    made = data.combination(kind, np.arange(data.n_known), np.arange(data.n_unknown))
    used = [data.names[d] for d in made.used]
    fitted = combine(
        [named[name] for name in used],
        knots=made.knots,
        weights=made.weights,
        method="rank" if kind == RANK else "stacking",
    ).to(known.logits if known.logits is not None else known.features)
    return fitted, dict(zip(used, made.weights.tolist(), strict=True))


def _share(caller: str, alpha: Alpha, n_known: int, n_unknown: int) -> float:
    if alpha == "counts":
        return n_known / (n_known + n_unknown)
    return ALPHA if alpha is None else float(_check.rate(caller, "alpha", alpha))


def _robust_choice(named: Mapping[str, Fitted], data: Data, known: Outputs) -> Choice:
    """Choose by the default rule, which needs no trials of thresholds."""
    detectors = [one.detector.name for one in named.values()]
    made = candidates_of(data, detectors)
    verdict = decide(made)
    is_consensus = verdict.name == CONSENSUS
    used = [data.names[d] for d in made.members] if is_consensus else [verdict.name]
    fitted = named[used[0]]
    if len(used) > 1:
        reference = [data.known[:, d] for d in made.members]
        fitted = combine([named[name] for name in used], reference=reference).to(
            known.logits if known.logits is not None else known.features
        )
    return Choice(
        name=verdict.name if len(used) > 1 else used[0],
        fitted=fitted,
        objective=verdict.ranking[0]["objective"],
        options={},
        alpha=data.alpha,
        by="new kind",
        measure="oosa",
        left_out="kinds" if len(made.kinds) > 1 else "nothing",
        weights=dict.fromkeys(used, 1 / len(used)),
        ranking=Table(verdict.ranking),
        cells=Table(verdict.cells),
        reason=_reason(verdict.name, fitted, len(made.kinds)) if len(named) > 1 else "",
    )


def _reason(name: str, fitted: Fitted, n_kinds: int) -> str:
    """Say why the default rule chose this one of several candidates."""
    if n_kinds == 1:
        return (
            "It is the default: results on one kind of unknowns do not show which "
            "detector is best on others"
        )
    if name == CONSENSUS:
        return (
            "It is the default: no other detector gained two points on every kind left "
            "out, nor did MSP or MaxLogit do better on average"
        )
    if fitted.detector.name in SIMPLE:
        return "It is better than the default on average over the kinds left out"
    return "It gains more than two points over the default on every kind left out"


def _prices(caller: str, options: Mapping[str, Any] | None) -> Prices:
    """Return the prices among the options of `by_cost`."""
    others = ("alpha", "prefer", "at")
    given = {name: x for name, x in dict(options or {}).items() if name not in others}
    check_options(caller, "by_cost", given)
    return Prices.of(caller, **given)


def _winner(
    ranking: list[dict[str, Any]], single: set[str], min_gain: float
) -> dict[str, Any]:
    best_single = next(row for row in ranking if row["detector"] in single)
    combined = [row for row in ranking if row["detector"] in {RANK, STACKING}]
    choosing = [row for row in ranking if row["detector"] == ONE]
    if not combined:
        return best_single
    gain = combined[0]["value"] - choosing[0]["value"]
    lost = best_single["value"] - combined[0]["value"]
    # The best single detector may owe a little to luck, but not this much.
    is_near = lost < _MOST_BELOW or min_gain < 0
    return combined[0] if gain > min_gain and is_near else best_single


def _named(
    caller: str, fitted: Mapping[str, Fitted] | Sequence[Fitted]
) -> dict[str, Fitted]:
    if isinstance(fitted, Fitted):
        fitted = [fitted]
    listed = list(fitted.values() if isinstance(fitted, Mapping) else fitted)
    for one in listed:
        _check.instance(
            caller,
            "fitted",
            one,
            Fitted,
            rule="fitted detectors",
            remedy="Fit each first: PostMax().fit(train)",
        )
    if not isinstance(fitted, Mapping):
        fitted = {one.detector.name: one for one in listed}
        if len(fitted) != len(listed):
            msg = _check.must(
                "of different names",
                caller=caller,
                name="fitted",
                got="two detectors of the same name",
                remedy="Pass a mapping: {'first': ..., 'second': ...}",
            )
            raise ValueError(msg)
    if not fitted:
        msg = _check.must("non-empty", caller=caller, name="fitted", got="none")
        raise ValueError(msg)
    taken = {RANK, STACKING, ONE, CONSENSUS} & set(fitted)
    if taken:
        got = ", ".join(sorted(taken))
        rule = f"other than {RANK!r}, {STACKING!r}, {ONE!r} and {CONSENSUS!r}"
        raise ValueError(_check.must(rule, caller=caller, name="names", got=got))
    return dict(fitted)
