"""Objectives by name: how a rejector's threshold is chosen."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from openset import _check, thresholds
from openset.scores import Scores
from openset.thresholds import Threshold

Objective: TypeAlias = str | Callable[[Scores], Threshold]

BY_NAME: dict[str, Callable[..., Threshold]] = {
    "osa": thresholds.osa,
    "at_fpr": thresholds.at_fpr,
    "at_tpr": thresholds.at_tpr,
}


def threshold_by(
    objective: Objective, scores: Scores, alpha: float | None, options: dict[str, Any]
) -> Threshold:
    """Choose a threshold on calibration scores by a named objective, or by any."""
    if callable(objective):
        chosen = objective(scores, **options)
        if not isinstance(chosen, Threshold):
            msg = _check.must(
                "a function from Scores to Threshold",
                caller="Rejector.calibrate",
                name="objective",
                got=f"one that returns {type(chosen).__name__}",
            )
            raise TypeError(msg)
        return chosen
    _check.one_of("Rejector.calibrate", "objective", objective, list(BY_NAME))
    function = BY_NAME[objective]
    accepted = [n for n in inspect.signature(function).parameters if n != "scores"]
    if alpha is not None:
        options = {"alpha": alpha, **options}
    for name in options:
        if name not in accepted:
            msg = _check.must(
                f"one of {', '.join(accepted)} for objective={objective!r}",
                caller="Rejector.calibrate",
                name="an option",
                got=repr(name),
            )
            raise TypeError(msg)
    return function(scores, **options)
