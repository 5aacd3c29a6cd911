"""The command line: thin commands over the library."""

import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text
from typer.main import get_command, get_group

import openset
from openset import _plugins
from openset._types import ArtefactError
from openset.cli._console import ERRORS
from openset.cli._help import Command, Contents

# Panels in the order in which a new user meets the commands. A sentence is the first
# of the command's own help; it stands here so that the list needs no imports.
_PANELS = {
    "Start": {
        "demo": "Train a small network on handwritten digits and reject digits it has "
        "not seen.",
        "doctor": "Show installed packages, devices, and the folders of data sets.",
    },
    "Evaluate": {
        "evaluate": "Print all metrics of a file of scores, with confidence intervals.",
        "detectors": "List the detectors: inputs they need, what the score is, their "
        "cost.",
        "score": "Fit detectors on training outputs and score test outputs.",
        "compare": "Compare detectors: all metrics with intervals, and pairwise tests.",
        "check": "Check an evaluation for mistakes that make its results meaningless.",
        "report": "Write a report as one HTML page: leaderboard, figures, threshold "
        "explorer.",
    },
    "Operate": {
        "calibrate": "Choose a threshold on validation and surrogate data, and save a "
        "rejector.",
        "predict": "Classify samples, or reject them as unknown (-1).",
        "export": "Write a rejector as an ONNX graph, to run it without this package.",
        "serve": "Serve a rejector over HTTP, with a web page at / to try it.",
        "watch": "Compare new samples with calibration samples; exit code 1 if they "
        "differ.",
    },
    "Study and train": {
        "datasets": "List the data sets: kind, size, whether they are present, how to "
        "get them.",
        "train": "Train a network with a published method.",
        "extract": "Run a trained network on data and save its outputs.",
        "bench": "Run a study, or score outputs of your network on a named benchmark.",
        "reproduce": "Recompute a table or figure of a paper, next to the published "
        "numbers.",
        "protocols": "List published protocols, show one, or draw new ones.",
    },
}


def _build(name: str) -> Any:
    """Import a command and return it."""
    module = import_module(f"openset.cli.{name}")
    if name == "protocols":  # a group of its own
        return get_group(module.app)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, cls=Command, epilog=module.EPILOG)(module.command)
    return get_command(alone)


class _Program(Contents):
    """The commands of openset."""

    listed = {  # noqa: RUF012
        name: (panel, sentence)
        for panel, commands in _PANELS.items()
        for name, sentence in commands.items()
    }
    build = staticmethod(_build)


app = typer.Typer(
    name="openset",
    cls=_Program,
    help="Open-set recognition: classifiers that reject samples of unknown classes.",
    epilog="Start with: [bold]openset demo[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer calls it with the flag
    if wanted:
        typer.echo(f"openset {openset.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # its callback has done it
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Log each step to standard error (Python's logger openset).",
        ),
    ] = False,
) -> None:
    """Define the options of the program itself."""
    if verbose:
        context.call_on_close(_log_to_stderr())


def _log_to_stderr() -> Callable[[], None]:
    """Show what the package logs; return a function that ends it."""
    logger, handler = logging.getLogger("openset"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)

    return end


def _message(error: Exception) -> str:
    """Return the message of an error, with the notes that say where it arose."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        # A file is written under a temporary name, then renamed: show the final name.
        text = f"{error.filename2 or error.filename}: {error.strerror}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print warnings about the user's data without the place in our code."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if category is not UserWarning:
                plain(message, category, *place)
                return
            line = f"[bold yellow]warning:[/bold yellow] {escape(str(message))}"
            ERRORS.say(line)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


_SHOWN_IN_ONE_LINE = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    FloatingPointError,  # raised when training diverges
    ArtefactError,
)


def _at_home(words: list[str]) -> list[str]:
    """Replace the ~ of ``--out=~/x``, which shells leave as it is.

    Examples
    --------
    >>> _at_home(["--out=~/x"]) == [f"--out={Path.home()}/x"], _at_home(["-d", "~x=~/"])
    (True, ['-d', '~x=~/'])
    """
    found = [re.fullmatch(r"(--[\w-]+=)(~(?:/.*)?)", word, re.DOTALL) for word in words]
    return [
        f"{one[1]}{Path(one[2]).expanduser()}" if one else word
        for one, word in zip(found, words, strict=True)
    ]


def main(words: list[str] | None = None) -> None:
    """Run a command; print errors that users can fix as one line.

    With ``--verbose`` the traceback comes before it.
    """
    words = _at_home(sys.argv[1:] if words is None else words)
    for stream in (sys.stdout, sys.stderr):  # of a terminal without, say, the letter ü
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        # Modules in the current folder can be used: openset score -d my:Margin.
        with _plugins.searching(Path.cwd()), _warnings_in_one_line():
            app(words)
    except _SHOWN_IN_ONE_LINE as error:
        if {"--verbose", "-v"} & set(words):
            ERRORS.print(Text(traceback.format_exc()), soft_wrap=True)
        ERRORS.say(f"[bold red]error:[/bold red] {escape(_message(error))}")
        sys.exit(2)
