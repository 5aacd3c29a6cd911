"""Options for files of scores that other programs wrote."""

from typing import Annotated, Any, TypeAlias

import typer

from openset import _check
from openset.scores import PER_SAMPLE

Columns: TypeAlias = Annotated[
    str,
    typer.Option(
        "--columns",
        help="Names of the columns in the file, where they differ from labels, "
        "predicted, known, groups and ids: known=score,labels=y. ids= ignores the "
        "ids: samples are then compared row by row.",
        show_default=False,
    ),
]
UnknownLabel: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Label of unknown samples in the file, a number or a name (default: -1, "
        "or unknown if its labels are names)."
    ),
]
HigherIsUnknown: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--higher-is-unknown",
        help="The file's score is higher for unknown samples: reverse its sign when "
        "reading.",
    ),
]


def reading(
    *, caller: str, columns: str, unknown_label: str | None, higher_is_unknown: bool
) -> dict[str, Any]:
    """Return the options above as arguments of `Scores.load`."""
    pairs = [part.partition("=") for part in columns.split(",") if part]
    if not all(
        name and sign and (own or name.strip() in PER_SAMPLE)
        for name, sign, own in pairs
    ):
        msg = _check.must(
            "pairs such as known=score,labels=y",
            caller=caller,
            name="--columns",
            got=columns,
        )
        raise typer.BadParameter(msg)
    return {
        "columns": {name.strip(): own.strip() for name, _, own in pairs},
        "unknown_label": unknown_label,
        "higher_is_unknown": higher_is_unknown,
    }
