"""Pages of help that can be read in a terminal of 80 columns."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


def flowing(text: str) -> str:
    r"""Join the lines of each paragraph: the terminal breaks them, not the source.

    Examples
    --------
    >>> flowing("One\nparagraph.\n\nAnd\nanother.")
    'One paragraph.\n\nAnd another.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


class Command(TyperCommand):
    """A command whose help flows and whose table of options leaves room for it."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help = flowing(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, their kinds shortened."""
        return _short(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose table of options looks like theirs."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, their kinds shortened."""
        return _short(super().get_params(ctx))


def _short(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""  # "--json <bool>" would ask for a value it does not take
        elif param.metavar is None and _has_range(param):
            param.metavar = "N"  # "<float range> [x>=1]" leaves no room for long names
    return params


def _has_range(param: Any) -> bool:
    # The limits are of the parameter or of its type, by the version of typer.
    holders = (param, getattr(param, "type", None))
    ends = (getattr(one, end, None) for one in holders for end in ("min", "max"))
    return any(end is not None for end in ends)
