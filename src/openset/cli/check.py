"""`openset check`."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import openset
from openset.cli.options import Json
from openset.cli.terminal import print_json, say, table


def command(
    folder: Annotated[Path, typer.Argument(metavar="STUDY_FOLDER")],
    strict: Annotated[bool, typer.Option("--strict")] = False,
    every: Annotated[bool, typer.Option("--all")] = False,
    as_json: Json = False,
) -> None:
    """Check an evaluation for mistakes that make its results meaningless.

        openset check study/ --strict
        openset check runs/study --all

    Parameters
    ----------
    folder
        A folder of openset bench, or one with some of scores/NAME.npz (test scores),
        calibration/NAME.npz (the scores thresholds were chosen on), rejectors/NAME/,
        results.csv, protocol*.json, parts.json (sample names of each part), and
        study.json with any of headline, thresholds, claim, tuned_on.
    strict
        Exit with code 1 if there are findings.
    every
        Read all score files, also where there are very many.
    """
    limit = {"limit": None} if every else {}
    findings = openset.checks.run_folder(folder, **limit)
    if as_json:
        print_json([one.to_dict() for one in findings])
    else:
        rows = []
        for one in findings:
            text = f"{one.title}: {one.message}"
            if one.is_finding:
                text += f"\n→ {one.remedy}\n{one.link}"
            status = Text(one.status, "bold") if one.is_finding else one.status
            rows.append({"check": one.code, "status": status, "result": text})
        table(rows, f"Checks of {folder.name or folder}")
        counts = Counter(str(one.status) for one in findings)
        kinds = ("passed", "finding", "not applicable")
        say(", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    if strict and any(one.is_finding for one in findings):
        raise typer.Exit(1)
