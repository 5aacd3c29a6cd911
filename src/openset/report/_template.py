"""Fill the templates of this folder: pages in one file, which load nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from openset import _check, _extras
from openset._version import __version__
from openset.report._svg import STYLE, readable

HERE = Path(__file__).parent


def check_ending(caller: str, path: str | Path) -> Path:
    """Return the path of a page; raise unless its name is that of one."""
    path = Path(path)
    if path.suffix not in {".html", ".htm"}:
        rule, got = "a name that ends in .html", repr(path.name)
        raise ValueError(_check.must(rule, caller=caller, name="path", got=got))
    return path


def fill(
    caller: str,
    template: str,
    *,
    filters: Mapping[str, Callable[..., Any]] | None = None,
    **content: Any,
) -> str:
    """Return a page as text. What a template calls `drawn` on is not escaped."""
    jinja2 = _extras.optional(caller, "jinja2", name="report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": readable, **(filters or {})}
    # Trusted: our own files, and drawings whose names are escaped when drawn.
    trusted = jinja2.utils.markupsafe.Markup
    return environment.get_template(template).render(
        **content,
        version=__version__,
        style=trusted(STYLE + (HERE / "page.css").read_text("utf-8")),
        drawn=trusted,
    )
