"""Objectives by name: the ways to choose a threshold."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from openset import _check
from openset.scores import Scores
from openset.thresholds._conformal import conformal
from openset.thresholds._cost import by_cost
from openset.thresholds._osa import osa
from openset.thresholds._per_class import per_class
from openset.thresholds._rates import at_fpr, at_tpr
from openset.thresholds._threshold import Threshold
from openset.thresholds._worst_group import worst_group

Objective: TypeAlias = str | Callable[..., Threshold]

OBJECTIVES: dict[str, Callable[..., Threshold]] = {
    function.__name__: function
    for function in (
        osa,
        worst_group,
        per_class,
        by_cost,
        at_fpr,
        at_tpr,
        conformal,
    )
}


KNOWNS_ALONE = ("at_tpr", "conformal")
"""Those that need no unknowns."""


def choose_by(
    objective: Objective,
    scores: Scores,
    *,
    caller: str,
    alpha: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Threshold:
    """Choose a threshold by a named objective, or by any function of scores.

    `alpha` goes to the named objectives that have one, `options` to all.
    """
    options = dict(options or {})
    if callable(objective):
        chosen = objective(scores, **options)
        if not isinstance(chosen, Threshold):
            msg = _check.must(
                "a function from Scores to Threshold",
                caller=caller,
                name="objective",
                got=f"one that returns {type(chosen).__name__}",
            )
            raise TypeError(msg)
        return chosen
    accepted = check_options(caller, objective, options)
    if alpha is not None and "alpha" in accepted:
        options.setdefault("alpha", alpha)
    return OBJECTIVES[objective](scores, **options)


def check_options(caller: str, objective: str, options: Mapping[str, Any]) -> list[str]:
    """Return the options a named objective has; refuse others, and other names."""
    _check.one_of(caller, "objective", objective, list(OBJECTIVES))
    function = OBJECTIVES[objective]
    accepted = [n for n in inspect.signature(function).parameters if n != "scores"]
    for name in options:
        if name not in accepted:
            msg = _check.must(
                f"one of {', '.join(accepted)} for objective={objective!r}",
                caller=caller,
                name="an option",
                got=repr(name),
                remedy=_check.near(name, accepted),
            )
            raise TypeError(msg)
    return accepted
