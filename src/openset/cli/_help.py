"""Commands and groups: help for 80 columns, --quiet, and how an interruption ends."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from openset.cli._console import ERRORS, hush


def flowing(text: str) -> str:
    r"""Join the lines of each paragraph, so that they wrap at the terminal's width.

    Examples
    --------
    >>> flowing("One\nparagraph.\n\nAnd\nanother.")
    'One paragraph.\n\nAnd another.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


@cache
def _common_params() -> tuple[Any, ...]:
    """Return the options of every command, as typer makes them."""

    def options(
        quiet: Annotated[  # its callback does it
            bool,
            typer.Option(
                "--quiet",
                "-q",
                expose_value=False,
                callback=hush,
                help="Print only errors, warnings, and what --json, --csv or "
                "--latex asks for.",
            ),
        ] = False,
    ) -> None: ...

    alone = typer.Typer(add_completion=False)
    alone.command()(options)
    return tuple(get_command(alone).params)


class Command(TyperCommand):
    """A command whose help wraps at the terminal's width, with the option --quiet."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help = flowing(self.help or "")
        self.params = [*self.params, *_common_params()]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, with shortened types."""
        return _short(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, with short option types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, with shortened types."""
        return _short(super().get_params(ctx))


class Contents(Group):
    """The program: its commands are imported when they are called, not for its help.

    `listed` holds, by name, the panel and the sentence of each command; `build` makes
    one. Importing all of them takes four times as long as printing the list.
    """

    listed: Mapping[str, tuple[str, str]]
    build: Callable[[str], Any]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.commands = _Commands(self.listed, type(self).build)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the list of commands by panel, without importing them."""
        commands: dict[str, Any] = {
            name: TyperCommand(name, help=sentence, rich_help_panel=panel)
            for name, (panel, sentence) in self.listed.items()
        }
        Group(
            name=self.name,
            commands=commands,
            params=self.params,
            help=self.help,
            epilog=self.epilog,
            rich_markup_mode=self.rich_markup_mode,
        ).format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C ends it with one line and exit code 130.

        A command that knows how to continue raises KeyboardInterrupt with that advice.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            advice = str(stop) or "Files appear when complete: none is half-written."
            ERRORS.print(
                f"Stopped. {advice}", highlight=False, markup=False, soft_wrap=True
            )
            raise typer.Exit(130) from None


class _Commands(MutableMapping[str, Any]):
    """Commands by name, each made on first use."""

    def __init__(
        self, listed: Mapping[str, object], build: Callable[[str], Any]
    ) -> None:
        self._made: dict[str, Any] = dict.fromkeys(listed)
        self._build = build

    def __getitem__(self, name: str) -> Any:
        if self._made[name] is None:
            self._made[name] = self._build(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made  # without making the command


def _short(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""  # "--json <bool>" would look as if the flag took a value
        elif param.metavar is None and _has_range(param):
            param.metavar = "N"  # "<float range> [x>=1]" leaves no room for long names
    return params


def _has_range(param: Any) -> bool:
    # The limits belong to the parameter or to its type, depending on typer's version.
    holders = (param, getattr(param, "type", None))
    ends = (getattr(one, end, None) for one in holders for end in ("min", "max"))
    return any(end is not None for end in ends)
