"""What calibration warned of, repeated wherever its rejector is used."""

from rich.markup import escape

from openset.cli._console import PlainConsole
from openset.rejector import Rejector

_STEP = (
    "Its inputs were perturbed along a gradient in calibration ({}). It cannot check "
    "that for bare arrays: send outputs of inputs perturbed the same way, such as "
    "those of openset extract --step."
)
_COLOURS = {"error": "red", "warning": "yellow"}


def print_cautions(rejector: Rejector, console: PlainConsole) -> None:
    """Print each caution; on a line of its own, where no terminal ends it."""
    for one in rejector.cautions:
        colour = _COLOURS[one.severity]
        text = f"[{colour}]{one.code}[/{colour}] {escape(one.message)}"
        console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def print_step(rejector: Rejector, console: PlainConsole) -> None:
    """Say that a rejector without its network relies on inputs that were perturbed."""
    if rejector.input_step:
        text = escape(_STEP.format(rejector.input_step))
        console.say(f"[yellow]{text}[/yellow]")
