"""Where commands print: tables, messages, JSON; quietly if asked to."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from openset._safe_text import visible

_IN_ASCII = str.maketrans({"↑": "^", "↓": "v", "→": ">", "≤": "<=", "≥": ">="})


class PlainConsole(Console):
    """A console that shows control characters of texts instead of sending them on.

    Names of classes, groups, samples and files may come from anywhere, and an escape
    sequence in one could move the cursor, or change the title of the window.

    Where there are no arrows, as in a pipe or a file on Windows, they become letters.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render everything as text, but for what rich itself sends."""
        has_arrows = self.encoding.startswith("utf")
        for text, style, control in super().render(renderable, options):
            shown = text if control else visible(text)
            if not has_arrows:
                shown = shown.translate(_IN_ASCII)
            yield Segment(shown, style, control)

    def say(self, text: str) -> None:
        """Print text that the terminal wraps, with no colours for its numbers."""
        self.print(text, highlight=False, soft_wrap=True)


OUT = PlainConsole()
ERRORS = PlainConsole(stderr=True)


def hush(context: typer.Context, wanted: bool) -> bool:  # noqa: FBT001
    """Print no tables and messages until the command ends: callback of an option."""
    context.with_resource(silent(wanted))
    return wanted


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv: TypeAlias = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
Latex: TypeAlias = Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")]
OnlyJson: TypeAlias = Annotated[  # for commands that print while they work
    bool,
    typer.Option("--json", callback=hush, help="Print JSON instead of tables."),
]


@dataclass(frozen=True, slots=True)
class Form:
    """In which form results are printed; none: tables for the terminal."""

    json: bool
    csv: bool
    latex: bool


def need_one_form(caller: str, *, as_json: bool, csv: bool, latex: bool) -> None:
    """Raise if results are to be printed in several forms."""
    if as_json + csv + latex > 1:
        msg = f"{caller}: at most one of --json, --csv and --latex can be given"
        raise typer.BadParameter(msg)


def print_json(document: Any) -> None:
    """Print a document as JSON, also with ``--quiet``: it was asked for.

    Numbers that JSON does not have become text.

    Examples
    --------
    >>> print_json({"threshold": float("-inf")})
    {
      "threshold": "-inf"
    }
    """
    typer.echo(as_json_text(document))


def as_json_text(document: Any) -> str:
    """Return a document as JSON; numbers that JSON does not have become text."""
    return json.dumps(_finite(document), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@contextmanager
def silent(wanted: bool = True) -> Iterator[None]:  # noqa: FBT001
    """Print no tables and messages; errors, warnings and JSON are still printed."""
    before, OUT.quiet = OUT.quiet, OUT.quiet or wanted
    try:
        yield
    finally:
        OUT.quiet = before
