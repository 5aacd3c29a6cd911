"""Objectives by name, with options: ``"at_fpr:fpr=0.01"``."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from openset import _check
from openset.metrics.counts import Alpha
from openset.metrics.registry import options_of
from openset.scores import Scores
from openset.thresholds import objectives as ways
from openset.thresholds.threshold import Threshold

Objective: TypeAlias = str | Callable[..., Threshold]

_WITH_UNKNOWNS = ("osa", "worst_group", "by_cost", "at_fpr")
_WITHOUT = ("at_tpr", "conformal")


def objectives(*, needs_unknowns: bool | None = None) -> tuple[str, ...]:
    """Return the names of all objectives, or of those that do (not) need unknowns.

    Each is a function of :mod:`openset.thresholds`.

    Examples
    --------
    >>> objectives()
    ('osa', 'worst_group', 'by_cost', 'at_fpr', 'at_tpr', 'conformal')
    >>> objectives(needs_unknowns=False)
    ('at_tpr', 'conformal')
    """
    every = {True: _WITH_UNKNOWNS, False: _WITHOUT, None: _WITH_UNKNOWNS + _WITHOUT}
    return every[needs_unknowns]


def needs_unknowns(objective: Objective) -> bool:
    """Whether an objective cannot be used without unknown samples.

    Examples
    --------
    >>> needs_unknowns("at_fpr:fpr=0.01"), needs_unknowns("conformal")
    (True, False)
    """
    return isinstance(objective, str) and objective.split(":")[0] in _WITH_UNKNOWNS


def choose_by(
    objective: Objective,
    scores: Scores,
    *,
    caller: str,
    alpha: Alpha | None = None,
    options: Mapping[str, Any] | None = None,
) -> Threshold:
    """Choose a threshold by a named objective, or by any function of scores.

    Parameters
    ----------
    objective
        One of :func:`objectives`, which may have options (``"at_fpr:fpr=0.01"``), or a
        function from scores to a threshold.
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
    >>> choose_by("at_fpr:fpr=0.5", scores, caller="me").value
    2.0
    """
    if callable(objective):
        chosen = objective(scores, **(options or {}))
        if not isinstance(chosen, Threshold):
            rule = "a function from Scores to Threshold"
            got = f"one that returns {type(chosen).__name__}"
            _check.fail(caller, "objective", rule, got, error=TypeError)
        return chosen
    name, given = check_options(caller, objective, options or {})
    function = getattr(ways, name)
    if alpha is not None and "alpha" in inspect.signature(function).parameters:
        given.setdefault("alpha", alpha)
    return function(scores, **given)


def check_options(
    caller: str, objective: str, options: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return an objective's name and all its options; raise if it has no such one."""
    name, _, text = str(objective).partition(":")
    _check.one_of(caller, "objective", name, objectives())
    accepted = [*inspect.signature(getattr(ways, name)).parameters][1:]
    given = {**options, **options_of(text)}
    for option in given:
        _check.one_of(caller, f"an option of {name}", option, accepted)
    return name, given
