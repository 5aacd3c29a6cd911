"""Options for signed rejectors: a file with a secret key."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Sign: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE",
        help="Sign the rejector with the secret key in this file (16 bytes or more); "
        "--verify of other commands then refuses changed copies. Default: no "
        "signature, which detects damage but not deliberate changes.",
    ),
]
Verify: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE",
        help="Stop with an error unless the rejector was signed with the key in this "
        "file (openset calibrate --sign KEYFILE). Default: signatures are not "
        "checked.",
    ),
]


def read_key(path: Path | None) -> bytes | None:
    """Return the bytes of a key file; None without one."""
    if path is None:
        return None
    if not path.is_file():
        msg = f"openset: key must be a file, got {path}, which is no file"
        raise FileNotFoundError(msg)
    return path.read_bytes()
