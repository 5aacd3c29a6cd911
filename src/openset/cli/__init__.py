"""The command line: `openset NAME` is the function `command` of the module NAME.

A command reads paths, calls the library, and prints rows or JSON. Its module imports
`openset` only, whose parts are loaded on first use, so that --help is fast.
"""

import io
import sys
import traceback
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import openset
from openset import _plugins
from openset.cli.options import Command, Group
from openset.cli.terminal import ERR, say, warn

# In the order in which a new user meets the commands.
PANELS = {
    "Start": "demo doctor",
    "Evaluate": "evaluate detectors score compare check report",
    "Operate": "calibrate predict export serve watch",
    "Study and train": "datasets protocols train extract bench reproduce",
}
# RuntimeError: of torch, such as a device that is not there.
MENDABLE = (ValueError, TypeError, ArithmeticError, OSError, ImportError, RuntimeError)
"""Errors that users can mend; others are bugs, and are shown with their traceback."""


app = typer.Typer(
    name="openset",
    cls=Group,
    epilog="Start with: **openset demo**",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, names in PANELS.items():
    for name in names.split():
        module = import_module(f"openset.cli.{name}")
        if hasattr(module, "app"):  # several commands: openset protocols holdout
            app.add_typer(module.app, name=name, cls=Group, rich_help_panel=panel)
        else:
            app.command(name, cls=Command, rich_help_panel=panel)(module.command)


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer calls it with the flag
    if wanted:
        typer.echo(f"openset {openset.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
) -> None:
    """Open-set recognition: classifiers that reject samples of unknown classes.

    Parameters
    ----------
    version
        Show the version and exit.
    verbose
        Show where an error arose.
    """


def _message(error: Exception) -> str:
    """Return the message of an error, with the notes that say where it arose."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        # A file is written under a temporary name, then renamed: show the final name.
        text = f"{error.filename2 or error.filename}: {error.strerror}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


def main(words: list[str] | None = None) -> None:
    """Run a command; print errors that users can mend as one line.

    With ``--verbose`` the traceback comes before it.
    """
    words = sys.argv[1:] if words is None else words
    for stream in (sys.stdout, sys.stderr):  # of a terminal without, say, the letter ü
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        # Modules in the current folder can be used: openset score -d my:Margin.
        with _plugins.searching(Path.cwd()), warnings.catch_warnings():
            # Each once, without the place in our code.
            show = cache(lambda text: warn(f"warning: {text}"))
            warnings.showwarning = lambda message, *_, **__: show(str(message))
            app(words)
    except MENDABLE as error:
        if {"--verbose", "-v"} & set(words):
            say(traceback.format_exc(), to=ERR)
        say(f"error: {_message(error)}", style="red", to=ERR)
        sys.exit(2)
