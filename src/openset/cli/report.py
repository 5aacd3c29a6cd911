"""`openset report`."""

from pathlib import Path
from typing import Annotated

import typer

from openset import report
from openset.cli._options import naming
from openset.cli._tables import OUT

EPILOG = """[bold]Examples[/bold]

openset report runs/study

openset report runs/study --out paper/report.html

openset report scores.npz --threshold 0.7"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "path": "--out",
    "threshold": "--threshold",
}


@naming("openset report", _OPTIONS)
def command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_FOLDER|SCORES",
            help="Run folder of openset bench, a folder with scores/NAME.npz, or one "
            "file of scores (.npz, .csv, .parquet).",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write (default: report.html in the folder; for a file "
            "of scores, its name with .html).",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Threshold in use, for a file of scores; it must be chosen on "
            "other data."
        ),
    ] = None,
) -> None:
    """Write a report as one HTML page: leaderboard, figures, threshold explorer.

    The page is self-contained: it opens offline and can be sent to others.
    """
    if out is None:
        is_folder = source.is_dir()
        out = source / "report.html" if is_folder else source.with_suffix(".html")
    path = report.write(source, out, threshold=threshold)
    size = path.stat().st_size / 1e6
    OUT.print(
        f"wrote {path} ({size:.1f} MB). Open it in a browser.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
