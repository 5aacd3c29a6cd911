"""`openset watch`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import openset
from openset.cli.terminal import say, table


def command(
    rejector: str,
    new: Annotated[list[Path], typer.Argument(metavar="NEW")],
    reference: Path | None = None,
    false_alarms: float = 0.01,
    window: int | None = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    plugin: list[str] | None = None,
) -> None:
    """Compare new samples with calibration samples; exit code 1 if they differ.

    The tests of a window compare the share of rejected samples (Fisher's exact test),
    the distribution of knownness (Kolmogorov-Smirnov) and the features (maximum mean
    discrepancy). The probability of a false alarm holds for all of them together.

        openset watch rejector/ today.npz
        openset watch rejector/ --reference calibration.npz --window 500 monday.npz tuesday.npz
        openset watch rejector/ traffic/ --window 1000 --json
        openset watch rejector/ --reference lastweek.npz --false-alarms 0.001 today.npz || ./notify.sh

    Parameters
    ----------
    new
        Scores or outputs of new samples; one or more files, or folders of shards
        (traffic-*.npz) that openset serve --log wrote.
    reference
        Scores or outputs from normal operation, or a folder of shards: all samples, or
        the known ones where it has labels (default: those of the calibration).
    false_alarms
        Probability that a window gives an alarm although nothing changed; higher finds
        smaller changes.
    window
        Number of samples per window (default: each file or folder is one). Samples
        after the last full window are not compared.
    as_json
        Print one JSON object per line.
    """  # noqa: E501  # commands can be pasted
    verdicts = openset.watch.compare(
        openset.Rejector.load(rejector, plugins=plugin or ()),
        new,
        reference=reference,
        window=window,
        false_alarms=false_alarms,
    )
    if as_json:
        for name, one in verdicts.items():
            typer.echo(json.dumps({"window": name, **one.to_dict()}))
    else:
        rows = [
            {
                "window": name if test is one.tests[0] else "",
                "n": one.n,
                "test": test.name,
                "reference": test.reference,
                "new": test.new,
                "distance": test.distance,
                "p": f"{test.p_value:.2g}",
                "": Text("alarm", "bold") if test.is_alarm else "ok",
            }
            for name, one in verdicts.items()
            for test in one.tests
        ]
        table(rows, f"At most {100 * false_alarms:g}% of windows give a false alarm")
        for name, one in verdicts.items():
            of = f"{one.n_invalid} of {one.n + one.n_invalid} samples"
            invalid = (
                f"{of} are invalid (NaN, or no single largest logit), not compared"
            )
            for text in (one.n_invalid and invalid, one.prevalence, one.advice):
                if text:
                    say(f"{name}: {text}")
    if any(one.is_alarm for one in verdicts.values()):
        raise typer.Exit(1)
