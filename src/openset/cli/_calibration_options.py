"""`openset calibrate`: its options, as the library takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from openset import _check
from openset.thresholds.alpha import Alpha

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
    objective: str | None, costs: dict[str, float | None], matrix: Path | None
) -> dict[str, Any]:
    """Return the options of `by_cost`."""
    given: dict[str, Any] = {n: cost for n, cost in costs.items() if cost is not None}
    if matrix is not None and given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        msg = f"openset calibrate: --cost-matrix and {names} cannot be combined"
        raise typer.BadParameter(msg)
    if matrix is not None:
        given["cost_matrix"] = _cost_matrix(matrix)
    if given and objective != "by_cost":
        msg = "openset calibrate: costs can only be given with --objective by_cost"
        raise typer.BadParameter(msg)
    return given


def _cost_matrix(path: Path) -> NDArray[Any]:
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        rows = [row for row in path.read_text("utf-8").splitlines() if row.strip()]
        return np.array([[float(x) for x in row.split(",")] for row in rows])
    except (ValueError, EOFError) as error:
        msg = (
            "openset calibrate: --cost-matrix must be a file of comma-separated "
            f"numbers, or a .npy array, got {path} ({error})"
        )
        raise ValueError(msg) from error
