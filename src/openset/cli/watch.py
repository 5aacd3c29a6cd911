"""`openset watch`."""

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from openset import _check, _io
from openset._types import UNKNOWN
from openset._urls import is_url
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Plugins
from openset.cli._lists import plain_table
from openset.cli._options import RejectorPlace, naming
from openset.cli._prevalence import prevalence_of, print_prevalence
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.scores import Scores
from openset.shards import is_folder_of_shards
from openset.watch import Part, Verdict, Watch

EPILOG = """[bold]Examples[/bold]

openset watch rejector/ today.npz

openset watch rejector/ --reference calibration.npz --window 500 \\
    monday.npz tuesday.npz

openset watch rejector/ traffic/ --window 1000 --html page.html

openset watch rejector/ --reference lastweek.npz --all \\
    --false-alarms 0.001 today.npz || ./notify.sh"""

_ENDINGS = (".npz", ".csv", ".parquet")
# Arguments of the library, by the option they come from.
_OPTIONS = {
    "false_alarms": "--false-alarms",
    "window": "--window",
    "plugins": "--plugin",
}


@naming("openset watch", _OPTIONS)
def command(
    folder: RejectorPlace,
    new: Annotated[
        list[Path],
        typer.Argument(
            metavar="NEW",
            help="Scores or outputs of new samples; one or more files, or folders of "
            "shards (traffic-*.npz) that openset serve --log wrote.",
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Scores or outputs from normal operation, or a folder of shards "
            "(default: the known samples of the calibration)."
        ),
    ] = None,
    false_alarms: Annotated[
        float,
        typer.Option(
            help="Probability that a window gives an alarm although nothing "
            "changed; higher finds smaller changes."
        ),
    ] = 0.01,
    window: Annotated[
        int | None,
        typer.Option(
            help="Number of samples per window (default: each file or folder is one "
            "window). Samples after the last full window are not compared."
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Compare with all samples of the reference, for one recorded in "
            "operation (default: with its known samples only).",
        ),
    ] = False,
    features: Annotated[
        bool,
        typer.Option(
            "--features/--no-features",
            help="Also compare features, if both the reference and the new samples "
            "have them.",
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write the result as a web page (.html).",
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Compare new samples with calibration samples; exit code 1 if they differ.

    The tests of a window compare the share of rejected samples (Fisher's exact test),
    the distribution of knownness (Kolmogorov-Smirnov) and the features (maximum mean
    discrepancy). The probability of a false alarm holds for all of them together.
    """
    if page is not None:
        _check.ending("openset watch", page, [".html"])
    rejector = Rejector.load(folder, plugins=plugin or ())
    watch = _watch(
        rejector, reference, whole=whole, features=features, false_alarms=false_alarms
    )
    if window is None:
        names = [path.name or str(path) for path in new]
        if len(set(names)) < len(names):  # monday/a.npz and tuesday/a.npz
            names = [str(path) for path in new]
        verdicts = [_checked(watch, _whole(rejector, path)) for path in new]
    else:
        parts = (part for path in new for part in _parts(rejector, path))
        verdicts = list(watch.stream(parts, window))
        if not verdicts:
            msg = _check.must(
                "at most the number of new samples, so that a window is full",
                caller="openset watch",
                name="--window",
                got=window,
                remedy="Use a smaller --window, or give more samples",
            )
            raise ValueError(msg)
        names = [f"{v.start}…{v.start + v.n - 1}" for v in verdicts]
    shares = [prevalence_of(rejector, verdict) for verdict in verdicts]
    if as_json:
        for name, verdict, share in zip(names, verdicts, shares, strict=True):
            record = {"window": name, **verdict.to_dict()}
            record["prevalence"] = None if share is None else share.to_dict()
            typer.echo(json.dumps(record))
    else:
        OUT.print(_table(names, verdicts, false_alarms))
        _say_invalid(names, verdicts)
        print_prevalence(names, shares)
    if page is not None:
        _write_page(page, rejector, folder, reference, names, verdicts)
        if not OUT.quiet:
            ERRORS.say(f"wrote {escape(str(page))}")
    if any(verdict.is_alarm for verdict in verdicts):
        raise typer.Exit(1)


def _say_invalid(names: list[str], verdicts: list[Verdict]) -> None:
    for name, verdict in zip(names, verdicts, strict=True):
        if verdict.n_invalid:
            of = verdict.n + verdict.n_invalid
            text = (
                f"{name}: {verdict.n_invalid} of {of} samples are invalid (NaN, or no "
                "single largest logit) and not compared"
            )
            OUT.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")


def _write_page(
    page: Path,
    rejector: Rejector,
    folder: str,
    reference: Path | None,
    names: list[str],
    verdicts: list[Verdict],
) -> None:
    from openset import report  # noqa: PLC0415  # the extra may be missing

    known = f"the {rejector.threshold.n.known} known calibration samples"
    report.write_watch(
        page,
        names,
        verdicts,
        title=folder.rstrip("/") if is_url(folder) else Path(folder).resolve().name,
        facts={
            "Rejector": f"{rejector.fitted.detector!r}, threshold {rejector.threshold}",
            "Compared with": known if reference is None else str(reference),
        },
    )


def _watch(
    rejector: Rejector,
    reference: Path | None,
    *,
    whole: bool,
    features: bool,
    false_alarms: float,
) -> Watch:
    if reference is not None:
        before = _whole(rejector, reference)
        if before.scores.n_known == 0 and not whole:
            msg = (
                f"openset watch: {reference} must hold samples labelled as known, got "
                f"{len(before.scores)} unknown or unlabelled. Use --all if they were "
                "recorded in operation"
            )
            raise ValueError(msg)
        return Watch(
            rejector.threshold,
            before.scores,
            features=before.features if features else None,
            against="all" if whole else "knowns",
            false_alarms=false_alarms,
        )
    if whole:
        msg = (
            "openset watch: --reference must be given with --all, got none. The "
            "unknown samples of a calibration do not represent operation: give "
            "samples recorded there"
        )
        raise ValueError(msg)
    return Watch.of(rejector, features=features, false_alarms=false_alarms)


def _checked(watch: Watch, part: Part) -> Verdict:
    return watch.check(part.scores, features=part.features, n_invalid=part.n_invalid)


def _whole(rejector: Rejector, path: Path) -> Part:
    """Read a file, or all shards of a folder."""
    parts = list(_parts(rejector, path))
    if not parts:
        msg = _check.must(
            "samples with an answer",
            caller="openset watch",
            name=str(path),
            got="invalid ones only (NaN, or no single largest logit)",
        )
        raise ValueError(msg)
    arrays = [part.features for part in parts if part.features is not None]
    return Part(
        Scores.concat([part.scores for part in parts])
        if parts[1:]
        else parts[0].scores,
        np.concatenate(arrays) if len(arrays) == len(parts) else None,
        sum(part.n_invalid for part in parts),
    )


def _parts(rejector: Rejector, path: Path) -> Iterator[Part]:
    """Read scores; score outputs if a file holds outputs.

    A file of invalid samples alone is counted with the part before it, or after it.
    """
    held, n_invalid = None, 0
    for file in _shards(path):
        part = _part(rejector, file)
        if isinstance(part, int):
            n_invalid += part
            continue
        if held is not None:
            yield held
        held = part._replace(n_invalid=part.n_invalid + n_invalid)
        n_invalid = 0
    if held is not None:
        yield held._replace(n_invalid=held.n_invalid + n_invalid)


def _part(rejector: Rejector, file: Path) -> Part | int:
    """Return the samples of a file; only their number if all are invalid."""
    if file.is_file():
        _check.ending("openset watch", file, _ENDINGS)
    if file.suffix in {".csv", ".parquet"} or _holds_scores(file):
        return Part(Scores.load(file))
    outputs = Outputs.load(file, invalid="keep")
    with _io.naming(file), np.errstate(all="ignore"):  # of infinite numbers
        decided = rejector.decide(outputs, invalid="reject")
    valid = ~decided.is_invalid
    if not valid.any():
        return decided.n_invalid
    found = None if outputs.features is None else np.asarray(outputs.features)[valid]
    labels = None if outputs.labels is None else outputs.labels[valid]
    scores = Scores(
        labels=np.full(valid.sum(), UNKNOWN) if labels is None else labels,
        predicted=decided.predicted[valid],
        known=decided.known[valid],
    )
    return Part(scores, found, decided.n_invalid)


def _shards(path: Path) -> list[Path]:
    """Return the shards of a folder of traffic, oldest first; else the path itself."""
    found = sorted(path.glob("traffic-*.npz")) if path.is_dir() else []
    if not found and is_folder_of_shards(path):
        msg = _check.must(
            "a folder of outputs (.npy files), or of shards named traffic-*.npz",
            caller="openset watch",
            name=str(path),
            got="neither",
            remedy="Give the files in it instead, or rename them",
        )
        raise ValueError(msg)
    return found or [path]


def _holds_scores(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "known.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile, NotImplementedError):
        return False  # whoever reads it says what is wrong


def _table(
    names: Iterable[str], verdicts: Iterable[Verdict], false_alarms: float
) -> Table:
    share = f"{100 * false_alarms:g}%"
    table = plain_table(f"At most {share} of windows give a false alarm")
    table.add_column("window", overflow="fold")
    for column in ("n", "test", "reference", "new", "distance", "p", ""):
        left = column in {"test", ""}
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for row in _rows(names, verdicts):
        table.add_row(*row)
    return table


def _rows(names: Iterable[str], verdicts: Iterable[Verdict]) -> Iterator[list[str]]:
    for name, verdict in zip(names, verdicts, strict=True):
        head = [escape(name), str(verdict.n)]
        for test in verdict.tests:
            mark = "[bold red]alarm[/bold red]" if test.is_alarm else "ok"
            values = (test.reference, test.new)
            yield [
                *head,
                test.name,
                *(f"{value:.4g}" for value in values),
                f"{test.distance:+.3f}",
                f"{test.p_value:.2g}",
                mark,
            ]
            head = ["", ""]
