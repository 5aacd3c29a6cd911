"""`openset report`."""

from pathlib import Path
from typing import Annotated

import typer

from openset import report
from openset.cli._console import OUT
from openset.cli._errors_in_options import naming
from openset.cli._score_files import (
    Columns,
    HigherIsUnknown,
    UnknownLabel,
    reading,
)
from openset.stats import score_files

EPILOG = """[bold]Examples[/bold]

openset report runs/study

openset report runs/study --out paper/report.html

openset report scores/   # after: openset score ... --out scores/

openset report scores.npz --threshold 0.7

openset report energy.csv odin.csv mine.csv --columns labels=y,known=score

openset report 'runs/{method}_seed{seed}.csv'"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "columns": "--columns",
    "unknown_label": "--unknown-label",
    "path": "--out",
    "source": "RUN_FOLDER|SCORES",
    "threshold": "--threshold",
    "pin": "--pin",
}


@naming("openset report", _OPTIONS)
def command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_FOLDER|SCORES",
            help="Run folder of openset bench or openset train, the folder that "
            "openset score wrote, or a folder with scores/NAME.npz. Or files of scores "
            "of the same samples (.npz, .csv, .parquet), one or several; or a pattern "
            "in quotes, 'runs/{method}_seed{seed}.csv', as openset compare takes it.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write (default: report.html in the folder; for a file "
            "of scores, its name with .html; for several, or a pattern, report.html "
            "in the current folder).",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="For one file of scores: threshold to mark and evaluate in the "
            "report. Choose it on other data (default: none)."
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="Show this method in the figures and the explorer in any case; may be "
            "repeated (default: the five leading methods).",
            show_default=False,
        ),
    ] = None,
    columns: Columns = "",
    unknown_label: UnknownLabel = None,
    higher_is_unknown: HigherIsUnknown = False,
) -> None:
    """Write a report as one HTML page: leaderboard, figures, threshold explorer.

    The page is self-contained: it opens offline and can be sent to others.
    """
    options = reading(
        caller="openset report",
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    first = paths[0]
    if out is None:
        if len(paths) > 1 or score_files.is_pattern(first):
            out = Path("report.html")
        elif first.is_dir():
            out = first / "report.html"
        else:
            out = first.with_suffix(".html")
    source = paths if len(paths) > 1 else _scored(first)
    path = report.write(source, out, threshold=threshold, pin=pin or (), **options)
    size = path.stat().st_size / 1e6
    OUT.print(
        f"wrote {path} ({size:.1f} MB). Open it in a browser.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _scored(source: Path) -> Path:
    """Return the files that `openset score` wrote to a folder, as a pattern."""
    if (source / "cells").is_dir() or (source / "scores").is_dir():
        return source
    endings = {path.suffix for path in source.glob("scores-*.*")}
    endings &= {".npz", ".csv", ".parquet"}
    return source / f"scores-{{method}}{min(endings)}" if endings else source
