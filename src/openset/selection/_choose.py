"""Which detector, and how to cut it: judged on a kind of unknowns left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from openset import _check
from openset._progress import bar
from openset.detectors import Fitted, combine
from openset.outputs import Outputs, need_outputs
from openset.selection._candidates import (
    ONE,
    RANK,
    STACKING,
    Criterion,
    Data,
)
from openset.selection._leave_kind_out import ranked, trials_of, turns_of
from openset.thresholds._cost import Prices
from openset.thresholds._objectives import OBJECTIVES, check_options
from openset.thresholds._table import Table

_NO_LUCK = 0.15
"""A combination so far below the best single detector is not taken."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The detector and the objective that did best on unknowns they were not given.

    `fitted`, `objective` and its `options` go to :meth:`openset.Rejector.calibrate`, or
    the choice itself does. `ranking` has one row per candidate and objective, first the
    chosen one, then by value; `cells` one per left-out group as well. `weights` says
    what a combination is made of. `measure` says what mean and worst are of: open-set
    accuracy (``"oosa"``), or ``"cost"`` if that is the objective. `left_out` says what
    was left out in turn: ``"groups"``, or ``"samples"`` if the surrogate has one kind
    and nothing can be learnt about others.
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

    @property
    def is_combined(self) -> bool:
        """Whether several detectors were combined."""
        return self.name in {RANK, STACKING}

    def __str__(self) -> str:
        best, name = self.ranking[0], self.name
        if self.is_combined:
            parts = sorted(self.weights.items(), key=lambda pair: -pair[1])
            name += f" of {', '.join(f'{n} ({w:.0%})' for n, w in parts)},"
        cost = "a cost of " if self.measure == "cost" else ""
        return (
            f"{name} cut by {self.objective}: {cost}{best['mean']:.3f} on average and "
            f"{best['worst']:.3f} at worst ({best['worst_group']}) on {self.left_out} "
            f"left out"
        )


def choose(
    fitted: Mapping[str, Fitted] | Sequence[Fitted],
    *,
    known: Outputs,
    surrogate: Outputs,
    objectives: str | Sequence[str] = ("osa", "worst_group"),
    options: Mapping[str, Any] | None = None,
    alpha: float = 0.5,
    by: Criterion = "both",
    combined: bool = True,
    min_gain: float = 0.005,
    folds: int = 5,
    batch_size: int | None = None,
    progress: bool = False,
    rng: np.random.Generator | int = 0,
) -> Choice:
    r"""Pick detector and objective by what they reach on a kind of unknowns left out.

    For every group of the surrogate in turn, thresholds are chosen without it and the
    open-set accuracy is taken on it; knowns are cut into folds, so none is judged by a
    threshold it helped to choose. Combinations (average of the ranks of the best three;
    logistic regression on ranks) are made anew in each turn from the calibration part
    alone. One wins if it gains `min_gain` over *choosing* a single detector, which is
    also done anew in each turn (the row ``"choosing one"``: whichever tells the rest of
    the calibration data apart best): the best of many values looks better than it is.
    In a hundred cases this gained 2.4 points of open-set accuracy over always taking a
    single detector (``docs/operating.md``). A combination that is 0.15 below the best
    single one is not taken.

    Parameters
    ----------
    fitted
        Fitted detectors; a mapping gives them names.
    known
        Labelled outputs the detectors were not fitted on.
    surrogate
        Outputs of unknowns, with `groups` that say what kind each is.
    objectives
        Names of ways to choose a threshold. Whatever they aim at, candidates are
        compared by open-set accuracy with `alpha`; with ``"by_cost"`` alone, by cost.
    options
        Of all of them: ``{"fpr": 0.01}`` for ``objectives=["at_fpr"]``, say.
    alpha
        Weight of the known side, to choose and to judge. Not by counts: how many
        surrogates you collected says nothing about operation.
    by
        Rank by the ``"mean"`` over left-out groups, by the ``"worst"`` of them, or by
        the mean of the two (``"both"``).
    combined
        Also try the combinations.
    min_gain
        What a combination must gain over choosing a single detector (of costs: in
        shares of what it costs to decide wrongly throughout); -1 takes one whatever it
        gains.
    folds
        Parts of the knowns.
    batch_size
        Samples scored at a time.
    progress
        Show a bar, if there is a terminal to show it on.
    rng
        Seed or generator: cuts the knowns.

    Notes
    -----
    Intervals cover the drawing of samples, not of kinds of unknowns: with three groups
    the fourth may still surprise.
    """
    caller = "selection.choose"
    named = _named(caller, fitted)
    share = float(_check.rate(caller, "alpha", alpha))
    _check.one_of(caller, "by", by, ["both", "mean", "worst"])
    names = [objectives] if isinstance(objectives, str) else objectives
    objectives = tuple(dict.fromkeys(names))
    if not objectives:
        rule = f"one or more of {', '.join(OBJECTIVES)}"
        msg = _check.must(rule, caller=caller, name="objectives", got="none")
        raise ValueError(msg)
    for objective in objectives:
        _check.one_of(caller, "objectives", objective, list(OBJECTIVES))
    _check.number(caller, "min_gain", min_gain)
    need_outputs(caller, "known", known)
    need_outputs(
        caller,
        "surrogate",
        surrogate,
        "Join several with Outputs.concat; make some with selection.synthetic",
    )
    data = Data.of(caller, named, known, surrogate, batch_size, alpha=share, by=by)
    is_cost = objectives == ("by_cost",)
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
            objectives=objectives,
            options=options,
            prices=prices,
        )
    ]
    ranking = ranked(trials, data, prices)
    best = _winner(ranking, set(named), min_gain)
    weights = {best["detector"]: 1.0}
    winner = named.get(best["detector"])
    if winner is None:
        made_of = data.combination(
            best["detector"], np.arange(data.n_known), np.arange(data.n_unknown)
        )
        used = [data.names[d] for d in made_of.used]
        weights = dict(zip(used, made_of.weights.tolist(), strict=True))
        winner = combine(
            [named[name] for name in used],
            knots=made_of.knots,
            weights=made_of.weights,
            method="rank" if best["detector"] == RANK else "stacking",
        ).to(known.logits if known.logits is not None else known.features)
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


def _prices(caller: str, options: Mapping[str, Any] | None) -> Prices:
    """Take the prices from what `by_cost` is told."""
    others = ("alpha", "prefer", "at")
    told = {name: x for name, x in dict(options or {}).items() if name not in others}
    check_options(caller, "by_cost", told)
    return Prices.of(caller, **told)


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
    # However lucky the best single one may be: so much is no luck.
    is_sane = lost < _NO_LUCK or min_gain < 0
    return combined[0] if gain > min_gain and is_sane else best_single


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
                got="two of one kind",
                remedy="Pass a mapping from your own names to them",
            )
            raise ValueError(msg)
    if not fitted:
        msg = _check.must("non-empty", caller=caller, name="fitted", got="none")
        raise ValueError(msg)
    taken = {RANK, STACKING, ONE} & set(fitted)
    if taken:
        got = ", ".join(sorted(taken))
        rule = f"other than {RANK!r}, {STACKING!r} and {ONE!r}"
        raise ValueError(_check.must(rule, caller=caller, name="names", got=got))
    return dict(fitted)
