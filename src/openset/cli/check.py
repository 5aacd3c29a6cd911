"""`openset check`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from openset import checks
from openset.checks import LIMIT, Finding
from openset.cli._console import OUT, Json, print_json
from openset.cli._errors_in_options import naming
from openset.cli._lists import plain_table

EPILOG = """[bold]Examples[/bold]

openset check study/

openset check study/ --strict

openset check runs/study --all

[bold]A study folder[/bold] is one that openset bench wrote, or holds some of: \
scores/NAME.npz (test scores), calibration/NAME.npz (the scores thresholds were chosen \
on), rejectors/NAME/ (openset calibrate), results.csv, protocol*.json, parts.json \
(sample names of each part), and study.json with any of headline, thresholds, claim, \
tuned_on. See docs/checks/index.md."""

_STYLES = {"passed": "green", "finding": "bold red", "not applicable": "dim"}


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="STUDY_FOLDER", help="Study folder; see below."),
    ],
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with code 1 if there are findings (default: with 0)."
        ),
    ] = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Read all score files (default: a sample of "
            f"{LIMIT}, if there are more).",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check an evaluation for mistakes that make its results meaningless."""
    with naming("openset check"):
        findings = checks.run_folder(folder, limit=None if every else LIMIT)
    if as_json:
        print_json([finding.to_dict() for finding in findings])
    else:
        _print(folder, findings)
    if strict and any(finding.is_finding for finding in findings):
        raise typer.Exit(1)


def _print(folder: Path, findings: Sequence[Finding]) -> None:
    OUT.print(_table(folder, findings))
    counts = dict.fromkeys(_STYLES, 0)
    for finding in findings:
        counts[finding.status] += 1
    n_findings = counts["finding"]
    OUT.print(
        f"{counts['passed']} passed, {n_findings} finding{'s' * (n_findings != 1)}, "
        f"{counts['not applicable']} not applicable",
        highlight=False,
    )


def _table(folder: Path, findings: Sequence[Finding]) -> Table:
    table = plain_table(f"Checks of {escape(folder.name or str(folder))}")
    table.add_column("check", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("finding and remedy", overflow="fold")
    for finding in findings:
        style = _STYLES[finding.status]
        text = f"[dim]{escape(finding.title)}:[/dim] {escape(finding.message)}"
        if finding.is_finding:
            text += f"\n→ {escape(finding.remedy)}\n[dim]{finding.link}[/dim]"
        table.add_row(finding.code, f"[{style}]{finding.status}[/{style}]", text)
    return table
