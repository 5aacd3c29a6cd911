"""What calibration warned of, repeated wherever its rejector is used."""

from rich.console import Console
from rich.markup import escape

from openset.rejector import Rejector

_STEP = (
    "Its inputs were perturbed along a gradient in calibration ({}). It cannot check "
    "that for bare arrays: send outputs of inputs perturbed the same way, such as "
    "those of openset extract --rejector."
)
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


def print_step(rejector: Rejector, console: Console) -> None:
    """Say that a rejector without its network relies on inputs that were perturbed."""
    if rejector.input_step:
        text = escape(_STEP.format(rejector.input_step))
        console.print(f"[yellow]{text}[/yellow]", highlight=False, soft_wrap=True)
