"""What calibration warned of, repeated wherever its rejector is used."""

from rich.console import Console
from rich.markup import escape

from openset.rejector import Rejector

_COLOURS = {"error": "red", "warning": "yellow"}


def print_cautions(rejector: Rejector, console: Console) -> None:
    """Print each caution on a line of its own."""
    for one in rejector.cautions:
        colour = _COLOURS[one.severity]
        console.print(
            f"[{colour}]{one.code}[/{colour}] {escape(one.message)}",
            highlight=False,
            soft_wrap=True,
        )
