"""`openset calibrate`: its options, as the library takes them."""

from typing import Any

import typer

from openset import _check
from openset.metrics.counts import Alpha

_TARGETS = {"at_fpr": "fpr", "at_tpr": "tpr", "conformal": "error_rate"}


def read_alpha(text: str) -> Alpha:
    """Read the expected share of known samples: a number, or counts."""
    if text == "counts":
        return "counts"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        msg = _check.must(
            "a number in [0, 1] or counts",
            caller="openset calibrate",
            name="--alpha",
            got=text,
        )
        raise ValueError(msg)
    return number


def target_options(objective: str | None, target: float | None) -> dict[str, Any]:
    """Return the target under the objective's own name for it."""
    if target is None:
        return {}
    if objective not in _TARGETS:
        names = ", ".join(_TARGETS)
        msg = f"openset calibrate: --target can only be used with --objective {names}"
        raise typer.BadParameter(msg)
    return {_TARGETS[objective]: target}


def cost_options(
    objective: str | None, costs: dict[str, float | None]
) -> dict[str, Any]:
    """Return the options of `by_cost`."""
    given: dict[str, Any] = {n: cost for n, cost in costs.items() if cost is not None}
    if given and objective != "by_cost":
        msg = "openset calibrate: costs can only be given with --objective by_cost"
        raise typer.BadParameter(msg)
    return given
