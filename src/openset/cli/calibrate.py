"""`openset calibrate`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table

from openset import thresholds
from openset._types import UNKNOWN
from openset.cli._recipe import recipe
from openset.cli._tables import OUT
from openset.detectors import Fitted
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.thresholds import Choice, Operation

EPILOG = """[bold]Examples[/bold]

openset calibrate --train train.npz --detector postmax --known val.npz
--surrogate negatives.npz --out rejector/

openset calibrate --train train.npz --detector msp --detector postmax --known val.npz
--surrogate negatives.npz --alpha 0.5 --test test.npz --out rejector/

openset calibrate --train train.npz --known val.npz --surrogate mixup --out rejector/

openset calibrate --train train.npz --known val.npz --objective conformal --target 0.05
--out rejector/"""

_USUAL = ("postmax",)
_COMPARED = ("osa", "worst_group")
_KNOWNS_ALONE = ("at_tpr", "conformal")
_TARGETS = {"at_fpr": "fpr", "at_tpr": "tpr", "conformal": "level"}


def command(
    train: Annotated[
        Path, typer.Option(help="Outputs of the training split: .npz or a folder.")
    ],
    known: Annotated[
        Path,
        typer.Option(
            help="Labelled validation outputs, not trained on. Samples labelled -1 "
            "count as surrogate."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the rejector to.")],
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            "-d",
            help="A detector (knn, or knn:k=5), by default postmax; several: the best "
            "on left-out groups of the surrogate is chosen.",
        ),
    ] = None,
    surrogate: Annotated[
        list[str] | None,
        typer.Option(
            help="Outputs of unknowns (with groups, if you can), or mixup, noise, "
            "left-out to make them from the known ones. May be repeated."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(thresholds.OBJECTIVES)}; default osa."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Expected share of known samples in operation; by default that of the "
            "calibration data (0.5 when detectors are chosen)."
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="The rate for at_fpr, at_tpr and conformal."),
    ] = None,
    hedge: Annotated[
        bool,
        typer.Option(
            "--hedge",
            help="When detectors are chosen: mixtures of known samples are one more "
            "kind of unknowns.",
        ),
    ] = False,
    test: Annotated[
        Path | None,
        typer.Option(help="Labelled test outputs: print what is reached on them."),
    ] = None,
) -> None:
    """Choose a threshold on validation and surrogate data, and save a rejector."""
    options = _options(objective, target)
    training = Outputs.load(train)
    validation, sets = _split(known, surrogate or [])
    fitted = {text: recipe(text).fit(training) for text in detector or _USUAL}
    source: Fitted | Choice = next(iter(fitted.values()))
    if len(fitted) > 1:
        alpha = 0.5 if alpha is None else alpha
        _need_surrogate(sets, "to choose among detectors")
        source = thresholds.choose(
            fitted,
            known=validation,
            surrogate=Outputs.concat(sets),
            objectives=_COMPARED if objective is None else (objective,),
            options=options,
            alpha=alpha,
            hedge="mixup" if hedge else None,
        )
        _print_choice(source)
    elif hedge:
        msg = "openset calibrate: --hedge goes with several --detector"
        raise typer.BadParameter(msg)
    elif (objective or "osa") not in _KNOWNS_ALONE:
        _need_surrogate(sets, f"for --objective {objective or 'osa'}")
    rejector = Rejector.calibrate(
        source,
        known=validation,
        surrogate=sets,
        objective=objective,
        alpha=alpha,
        **options,
    )
    _print_report(rejector)
    rejector.save(out)
    OUT.print(f"wrote {out}", highlight=False)
    if test is not None:
        _print_operation(rejector.operate(Outputs.load(test), alpha=alpha))


def _options(objective: str | None, target: float | None) -> dict[str, Any]:
    """Name the target as the objective does."""
    if target is None:
        return {}
    if objective not in _TARGETS:
        names = ", ".join(_TARGETS)
        msg = f"openset calibrate: --target goes with --objective {names}"
        raise typer.BadParameter(msg)
    return {_TARGETS[objective]: target}


def _need_surrogate(sets: list[Outputs], what: str) -> None:
    if not sets:
        msg = (
            f"openset calibrate: --surrogate must be given {what}, got none. Give "
            "outputs of unknowns, or mixup, noise, left-out; or use --objective "
            f"{' or '.join(_KNOWNS_ALONE)} with one detector"
        )
        raise ValueError(msg)


def _split(known: Path, surrogates: list[str]) -> tuple[Outputs, list[Outputs]]:
    """Load the knowns, and every set of unknowns with the group it forms."""
    validation = Outputs.load(known)
    sets = []
    labels = validation.labels
    if labels is not None and (labels == UNKNOWN).all():
        msg = (
            f"openset calibrate: --known must have samples of known classes, got "
            f"unknowns alone in {known}. Are --known and --surrogate swapped?"
        )
        raise ValueError(msg)
    if labels is not None and (labels == UNKNOWN).any():
        sets.append(_grouped(validation.take(labels == UNKNOWN), known.stem))
        validation = validation.take(labels != UNKNOWN)
    for name in surrogates:
        if name in thresholds.KINDS:
            sets.append(thresholds.synthetic(validation, name))
        else:
            sets.append(_grouped(Outputs.load(name), Path(name).stem))
    return validation, sets


def _grouped(outputs: Outputs, name: str) -> Outputs:
    if outputs.groups is not None:
        return outputs
    return outputs._with(groups=np.full(len(outputs), name))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return table


def _print_choice(choice: Choice) -> None:
    table = _table(
        f"Open-set accuracy on {choice.left_out} left out, alpha {choice.alpha:g}",
        "detector",
        "objective",
        "mean",
        "worst",
        "worst group",
    )
    for i, row in enumerate(choice.ranking):
        table.add_row(
            row["detector"],
            row["objective"],
            f"{row['mean']:.4f}",
            f"{row['worst']:.4f}",
            row["worst_group"],
            style="bold green" if i == 0 else None,
        )
    OUT.print(table)
    if choice.is_combined:
        OUT.print(
            "Combinations are held against the row 'choosing one': the best of many "
            "values looks better than it is.",
            style="dim",
        )
    OUT.print(f"chosen: {choice}\n", highlight=False)


def _print_report(rejector: Rejector) -> None:
    threshold, report = rejector.threshold, rejector.report
    OUT.print(
        f"[bold]{rejector.fitted.detector.name}[/bold], threshold {threshold}",
        highlight=False,
    )
    interval = threshold.rate.interval
    span = "" if interval is None else f" ({interval.low:.4f}–{interval.high:.4f})"
    OUT.print(
        f"{threshold.rate.name} {threshold.rate.value:.4f}{span} on the calibration "
        f"data; {report.accepted_known:.1%} of the known samples accepted"
        + ("" if report.urr is None else f", {report.urr:.1%} of the unknown rejected"),
        highlight=False,
    )
    if report.flat is not None and report.flat_share:
        OUT.print(
            f"within a point of the best: thresholds from {report.flat.low:.4g} to "
            f"{report.flat.high:.4g}, {report.flat_share:.1%} of the samples",
            highlight=False,
        )
    if len(report.alphas):
        first, last = report.alphas[0], report.alphas[-1]
        OUT.print(
            f"if {first['alpha']:.0%} of the samples were known, the threshold would "
            f"be {first['threshold']:.4g}; if {last['alpha']:.0%}, "
            f"{last['threshold']:.4g}",
            highlight=False,
        )
    if len(report.groups) > 1:
        table = _table("", "unknowns", "n", "rejected", "OSA", "best OSA", "loss")
        for row in report.groups:
            mark = " (worst)" if row["group"] == report.worst_group else ""
            table.add_row(
                row["group"] + mark,
                str(row["n"]),
                f"{row['urr']:.4f}",
                f"{row['osa']:.4f}",
                f"{row['best']:.4f}",
                f"{row['loss']:.4f}",
            )
        OUT.print(table)
    for caution in report.cautions:
        OUT.print(f"[yellow]{caution.code}[/yellow] {caution.message}", highlight=False)


def _print_operation(done: Operation) -> None:
    table = _table(
        f"On the test data, alpha {done.alpha_test:.3g}",
        "unknowns",
        "n",
        "rejected",
        "OOSA",
        "oracle OSA",
        "gap",
    )
    for row in done.groups:
        table.add_row(
            row["group"],
            str(row["n"]),
            *(f"{row[name]:.4f}" for name in ("urr", "oosa", "oracle", "gap")),
        )
    if len(done.groups) > 1:
        table.add_row(
            "together",
            str(sum(row["n"] for row in done.groups)),
            *(f"{value:.4f}" for value in (done.urr, done.oosa, done.oracle, done.gap)),
            style="bold",
        )
    OUT.print(table)
