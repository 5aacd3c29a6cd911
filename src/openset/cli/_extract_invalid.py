"""`openset extract --invalid`: damaged images, and samples with NaN."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.markup import escape

from openset._types import InvalidSamplesError
from openset.cli._console import ERRORS
from openset.datasets.lazy_inputs import DamagedImageError
from openset.outputs import Outputs

ANSWER = "kept as rows of NaN, which openset predict --invalid reject answers"
_REMEDY = "To keep such samples as rows of NaN, use --invalid keep"


@contextmanager
def mentioning_option(ids: Sequence[str] | None) -> Iterator[None]:
    """Name the sample that stopped a run, and the option to go on without it."""
    try:
        yield
    except DamagedImageError as error:
        msg = f"{error}. {_REMEDY}"
        raise DamagedImageError(msg) from error
    except InvalidSamplesError as error:
        name = f" ({ids[error.rows[0]]})" if ids is not None and error.rows else ""
        msg = f"{error}{name}. {_REMEDY}"
        raise InvalidSamplesError(msg, error.rows) from error


def found_invalid(outputs: Outputs) -> dict[str, Any]:
    """Return the number of invalid samples, and row and id of the first; or nothing."""
    rows = np.flatnonzero(outputs.is_invalid)
    if not rows.size:
        return {}
    found: dict[str, Any] = {"n": int(rows.size), "row": int(rows[0])}
    if outputs.ids is not None:
        found["id"] = str(outputs.ids[rows[0]])
    return found


def say_invalid(outputs: Outputs) -> None:
    """Say how many samples are invalid, which is the first, and what answers them."""
    found = found_invalid(outputs)
    if found:
        name = f", {found['id']}" if "id" in found else ""
        text = (
            f"{found['n']} of {len(outputs)} samples are invalid (a damaged image, or "
            f"NaN from the network) and {ANSWER}; the first: row {found['row']}{name}"
        )
        ERRORS.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")
