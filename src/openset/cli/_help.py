"""Help texts that fit a terminal of 80 columns."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


def flowing(text: str) -> str:
    r"""Join the lines of each paragraph, so that they wrap at the terminal's width.

    Examples
    --------
    >>> flowing("One\nparagraph.\n\nAnd\nanother.")
    'One paragraph.\n\nAnd another.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


class Command(TyperCommand):
    """A command whose help wraps at the terminal's width, with short option types."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help = flowing(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, with shortened types."""
        return _short(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, with short option types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, with shortened types."""
        return _short(super().get_params(ctx))


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
