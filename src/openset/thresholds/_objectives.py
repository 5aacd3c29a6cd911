"""Objectives by name: the ways to choose a threshold."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from openset import _check
from openset.scores import Scores
from openset.thresholds._anchored import anchored
from openset.thresholds._at_rate import at_fpr, at_tpr
from openset.thresholds._conformal import conformal
from openset.thresholds._cost import by_cost
from openset.thresholds._osa import osa
from openset.thresholds._per_class import per_class
from openset.thresholds._threshold import Threshold
from openset.thresholds._worst_group import worst_group
from openset.thresholds.alpha import Alpha

Objective: TypeAlias = str | Callable[..., Threshold]

_OBJECTIVES: dict[str, Callable[..., Threshold]] = {
    function.__name__: function
    for function in (
        osa,
        anchored,
        worst_group,
        per_class,
        by_cost,
        at_fpr,
        at_tpr,
        conformal,
    )
}
_NEED_NO_UNKNOWNS = ("at_tpr", "conformal")


def objectives(*, needs_unknowns: bool | None = None) -> tuple[str, ...]:
    """Return the names of all objectives, or of those that do (not) need unknowns.

    Each is a function of :mod:`openset.thresholds`.

    Examples
    --------
    >>> objectives()
    ('osa', 'anchored', 'worst_group', 'per_class', 'by_cost', 'at_fpr', 'at_tpr',
     'conformal')
    >>> objectives(needs_unknowns=False)
    ('at_tpr', 'conformal')
    """
    return tuple(
        name
        for name in _OBJECTIVES
        if needs_unknowns in (None, name not in _NEED_NO_UNKNOWNS)
    )


def choose_by(
    objective: Objective,
    scores: Scores,
    *,
    caller: str,
    alpha: Alpha = None,
    options: Mapping[str, Any] | None = None,
) -> Threshold:
    """Choose a threshold by a named objective, or by any function of scores.

    Parameters
    ----------
    objective
        One of :func:`objectives`, or a function from scores to a threshold.
    scores
        Calibration scores.
    caller
        Name of the calling function, for error messages.
    alpha
        Weight of the known samples; passed to the named objectives that have one. None:
        their default, 0.5.
    options
        Passed to the objective.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 2, 3, 1])
    >>> choose_by("at_fpr", scores, caller="me", options={"fpr": 0.5}).value
    2.0
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
    return _OBJECTIVES[objective](scores, **options)


def check_options(caller: str, objective: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of an objective's options; raise if others are given."""
    _check.one_of(caller, "objective", objective, objectives())
    function = _OBJECTIVES[objective]
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
