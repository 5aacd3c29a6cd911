"""What functions ask of the outputs they take."""

from functools import partial
from typing import Any

import numpy as np

from openset import _check
from openset._types import InvalidSamplesError
from openset.outputs.outputs import Outputs, need_kind


def need_outputs(caller: str, name: str, value: Any, remedy: str = "") -> None:
    """Raise unless the argument is `Outputs`, without invalid samples if in memory."""
    need_kind(caller, name, value, remedy)
    if value.invalid == "keep" and value.is_invalid.any():
        rows = np.flatnonzero(value.is_invalid).tolist()
        remedy = (
            "Leave them out: outputs.take(~outputs.is_invalid). Only a rejector "
            "answers them: predict(outputs, invalid='reject')"
        )
        got = f"{len(rows)}, first in row {rows[0]}"
        error = partial(InvalidSamplesError, rows=rows)
        _check.fail(caller, name, "without invalid samples", got, remedy, error)


def need_same_classes(
    caller: str, outputs: Outputs, classes: tuple[str, ...], *, of: str, name: str
) -> None:
    """Raise if both name their classes, and do so differently.

    Class 0 of one would be another class of the other. Outputs without names pass.
    """
    pairs = zip(outputs.classes, classes, strict=False)  # lengths: checked as widths
    for place, (one, other) in enumerate(pairs):
        if one != other:
            _check.fail(
                caller,
                f"classes of {name}",
                f"those of {of}, in the same order",
                f"{one!r} for class {place}, which is {other!r} there",
                "Take outputs of the same network. If only the spelling differs, make "
                "the outputs without classes=",
            )
