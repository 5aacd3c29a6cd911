"""`openset report`."""

from pathlib import Path
from typing import Annotated

import typer

import openset
from openset.cli._options import Columns, HigherIsUnknown, UnknownLabel, reading
from openset.cli._terminal import say


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
            "--out",
            "-o",
            help="File to write (default: report.html in the folder; for a file of "
            "scores, its name with .html; else report.html in the current folder).",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="For one file of scores: threshold to mark and evaluate. Choose it on "
            "other data."
        ),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="Show this method in the figures and the explorer in any case; may be "
            "repeated (default: the five leading methods).",
        ),
    ] = None,
    columns: Columns = "",
    unknown_label: UnknownLabel = None,
    higher_is_unknown: HigherIsUnknown = False,
) -> None:
    """Write a report as one HTML page: leaderboard, figures, threshold explorer.

    The page is self-contained: it opens offline and can be sent to others.

        openset report runs/study --out paper/report.html
        openset report scores.npz --threshold 0.7
        openset report energy.csv odin.csv mine.csv --columns labels=y,known=score
        openset report 'runs/{method}_seed{seed}.csv'
    """
    how = reading(columns, unknown_label, higher_is_unknown=higher_is_unknown)
    first = paths[0]
    if out is None and first.is_dir():
        out = first / "report.html"
    elif out is None:
        is_one = len(paths) == 1 and not openset.stats.score_files.is_pattern(first)
        out = first.with_suffix(".html") if is_one else Path("report.html")
    if len(paths) == 1 and first.is_dir() and not (first / "scores").is_dir():
        paths = sorted(first.glob("scores-*.[ncp]*")) or paths  # of openset score
    source = paths[0] if len(paths) == 1 else paths
    path = openset.report.write(source, out, threshold=threshold, pin=pin or (), **how)
    size = path.stat().st_size / 1e6
    say(f"wrote {path} ({size:.1f} MB). Open it in a browser.")
