"""`openset report`."""

from pathlib import Path
from typing import Annotated

import typer

import openset
from openset.cli.options import Out, reading
from openset.cli.terminal import say


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN_FOLDER|SCORES")],
    out: Out = None,
    threshold: float | None = None,
    pin: Annotated[list[str] | None, typer.Option(metavar="METHOD")] = None,
    columns: str = "",
    unknown_label: str | None = None,
    higher_is_unknown: Annotated[bool, typer.Option("--higher-is-unknown")] = False,
) -> None:
    """Write a report as one HTML page: leaderboard, figures, threshold explorer.

    The page is self-contained: it opens offline and can be sent to others.

        openset report runs/study --out paper/report.html
        openset report scores.npz --threshold 0.7
        openset report energy.csv odin.csv mine.csv --columns labels=y,known=score
        openset report 'runs/{method}_seed{seed}.csv'

    Parameters
    ----------
    paths
        Run folder of openset bench or openset train, the folder that openset score
        wrote, or a folder with scores/NAME.npz. Or files of scores of the same samples
        (.npz, .csv, .parquet), one or several; or a pattern in quotes,
        'runs/{method}_seed{seed}.csv', as openset compare takes it.
    out
        File to write (default: report.html in the folder; for a file of scores, its
        name with .html; else report.html in the current folder).
    threshold
        For one file of scores: threshold to mark and evaluate. Choose it on other data.
    pin
        Show this method in the figures and the explorer in any case; may be repeated
        (default: the five leading methods).
    """
    how = reading(columns, unknown_label, higher_is_unknown=higher_is_unknown)
    first = paths[0]
    if out is None and first.is_dir():
        out = first / "report.html"
    elif out is None:
        is_one = len(paths) == 1 and not openset.stats.score_files.is_pattern(first)
        out = first.with_suffix(".html") if is_one else Path("report.html")
    path = openset.report.write(paths, out, threshold=threshold, pin=pin or (), **how)
    size = path.stat().st_size / 1e6
    say(f"wrote {path} ({size:.1f} MB). Open it in a browser.")
