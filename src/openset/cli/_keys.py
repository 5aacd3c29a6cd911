"""Options for signed rejectors: a file with a secret key."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Sign: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE",
        help="Sign the rejector with a secret key: the bytes of this file, at least "
        "16. Without a signature damage is detected, but not forgery.",
    ),
]
Verify: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE",
        help="Refuse the rejector unless it was signed with the key in this file "
        "(openset calibrate --sign KEYFILE).",
    ),
]


def read_key(path: Path | None) -> bytes | None:
    """Return the bytes of a key file; None without one."""
    return None if path is None else path.read_bytes()
