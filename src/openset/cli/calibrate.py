"""`openset calibrate`."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from openset import _io, selection, thresholds
from openset._progress import bar
from openset._types import CalibrationError, CalibrationWarning
from openset.cli._calibration_data import (
    compare_labels,
    from_run,
    need_surrogate,
    read_known,
    read_labelled,
)
from openset.cli._calibration_options import (
    cost_options,
    read_alpha,
    target_options,
)
from openset.cli._calibration_report import (
    document,
    print_choice,
    print_magnitudes,
    print_report,
    print_test,
)
from openset.cli._console import OUT, OnlyJson, print_json
from openset.cli._detector_options import Train, need_training, recipe
from openset.cli._errors_in_options import naming
from openset.detectors import Detector, Fitted
from openset.metrics.counts import Alpha
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.rejector.files import check_destination
from openset.selection import Choice

EPILOG = """[bold]Examples[/bold]

openset calibrate --train train.npz --known val.npz --surrogate near.npz \\
    --surrogate far.npz --test test.npz --out rejector/

openset calibrate --run runs/a --out rejector/

openset calibrate --known val.npz --surrogate negatives.npz -d energy \\
    --out rejector/

openset calibrate --train train.npz --known val.npz --objective conformal \\
    --target 0.05 --out rejector/

openset calibrate --train train.npz --known val.npz --surrogate far.npz \\
    --sets 0.9 --out rejector/"""

_AUTO = "auto"

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "objective": "--objective",
    "alpha": "--alpha",
    "fpr": "--target",
    "tpr": "--target",
    "error_rate": "--target",
    "missed_unknown": "--missed-unknown",
    "false_unknown": "--false-unknown",
    "confusion": "--confusion",
    "known": "--known",
    "surrogate": "--surrogate",
    "sets": "--sets",
}


@naming("openset calibrate", _OPTIONS)
def command(
    out: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Folder to write the rejector to.",
        ),
    ],
    known: Annotated[
        Path | None,
        typer.Option(
            help="Labelled validation outputs, not trained on: .npz with the arrays "
            "logits, features, labels (or some of them), or a folder of such .npy "
            "files. Samples labelled -1 are used like those of --surrogate."
        ),
    ] = None,
    train: Train = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="A folder written by openset train. Its outputs are used for "
            "--train, --known and --test, and --surrogate is left-out, unless you "
            "give these options."
        ),
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            "-d",
            help="A detector, such as knn or knn:k=5; may be repeated. Several are "
            "compared on kinds of surrogate samples that are held out in turn; the "
            "rejector uses a consensus (the mean rank by some of them), unless a "
            "single one is clearly better. auto, the default, is msp, maxlogit, "
            "rmds, vim and osnn, except those that need arrays which are missing.",
        ),
    ] = None,
    surrogate: Annotated[
        list[str] | None,
        typer.Option(
            help="Outputs of samples of no known class, to choose the threshold "
            "with; their groups name the kinds. Or synthetic ones: mixup (mixtures "
            "of known samples) or left-out (known classes that are left out in "
            "turn). May be repeated. Default: none, which only at_tpr and conformal "
            "allow."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="How the threshold is chosen: osa (best open-set accuracy), "
            "worst_group (best for the hardest kind), by_cost (lowest cost), at_fpr, "
            "at_tpr (a given rate, see --target) or conformal (a bound on rejected "
            "known samples). Default: osa."
        ),
    ] = None,
    alpha: Annotated[
        str,
        typer.Option(
            help="Share of known samples you expect in operation; counts: their "
            "share in the calibration data."
        ),
    ] = "0.5",
    target: Annotated[
        float | None,
        typer.Option(
            help="Rate to reach: for at_fpr, share of unknown samples accepted "
            "(default: 0.05); for at_tpr, share of known samples accepted (0.95); "
            "for conformal, share of known samples rejected (0.05)."
        ),
    ] = None,
    missed_unknown: Annotated[
        float | None,
        typer.Option(
            help="For by_cost: cost of accepting an unknown sample (default: 1)."
        ),
    ] = None,
    false_unknown: Annotated[
        float | None,
        typer.Option(
            help="For by_cost: cost of rejecting a known sample (default: 1)."
        ),
    ] = None,
    confusion: Annotated[
        float | None,
        typer.Option(
            help="For by_cost: cost of accepting a known sample with the wrong class "
            "(default: 1)."
        ),
    ] = None,
    accept_risk: Annotated[
        bool,
        typer.Option(
            "--accept-risk",
            help="Save the rejector even if its threshold rejects or accepts nearly "
            "everything (CAL001, CAL002; default: stop with an error).",
        ),
    ] = False,
    sets: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Also calibrate prediction sets: for each accepted sample, the "
            "classes it may belong to. The share of the accepted known samples whose "
            "set must contain their class, such as 0.9 (default: no sets).",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Labelled test outputs: also print the results on them."),
    ] = None,
    as_json: OnlyJson = False,
) -> None:
    """Choose a threshold on validation and surrogate data, and save a rejector."""
    # Check all options before the work starts.
    if run is not None:
        train, known, surrogate, test = from_run(run, train, known, surrogate, test)
    if known is None:
        msg = (
            "openset calibrate: --known must be given, got none. Give labelled outputs "
            "that were not trained on, or a training folder: --run"
        )
        raise typer.BadParameter(msg)
    check_destination(out, caller="openset calibrate", name="--out")
    costs = {
        "missed_unknown": missed_unknown,
        "false_unknown": false_unknown,
        "confusion": confusion,
    }
    options = target_options(objective, target)
    options |= cost_options(objective, costs)
    thresholds.check_options("openset calibrate", objective or "osa", options)
    weight = read_alpha(alpha)
    tested = None if test is None else read_labelled(test)
    training = None if train is None else Outputs.load(train)
    validation, unknowns = read_known(known, surrogate or [])
    if train is not None and training is not None:
        compare_labels(train, training)
    recipes = _recipes(detector or [_AUTO], training, unknowns)
    with _io.naming(train or known):
        fitted = _fitted(recipes, training, named=detector or ())
    source = _source(fitted, validation, unknowns, objective, weight)
    with warnings.catch_warnings():  # they are printed below
        warnings.simplefilter("ignore", CalibrationWarning)
        rejector = Rejector.calibrate(
            source,
            known=validation,
            surrogate=unknowns,
            objective=objective or "osa",
            alpha=weight,
            train=training,
            accept_risk=True,
            sets=sets,
            **options,
        )
    print_magnitudes(validation, unknowns)
    print_report(rejector)
    _need_no_collapse(rejector, accept_risk=accept_risk)
    saved = str(rejector.save(out))
    OUT.print(f"wrote {escape(saved)}", highlight=False)
    on_test: dict[str, Any] | None = None
    if tested is not None:
        prices = options if objective == "by_cost" else None
        on_test = print_test(rejector, tested, weight, prices)
    if as_json:
        print_json(document(rejector, source, saved, on_test))


def _recipes(
    wanted: list[str], training: Outputs | None, sets: list[Outputs]
) -> dict[str, Detector]:
    """Return the detectors to fit, by what they were called."""
    if _AUTO in wanted:
        names, reason = selection.suitable(training)
        if len(names) > 1 and not sets:
            names = names[:1]
            reason = (
                f"{names[0]}, as there are no unknown samples to compare detectors on"
            )
        OUT.print(f"detectors (auto): {reason}", highlight=False)
        wanted = [*names, *(text for text in wanted if text != _AUTO)]
    recipes = {text: recipe(text) for text in wanted}
    need_training(recipes, training, caller="openset calibrate")
    return recipes


def _fitted(
    recipes: Mapping[str, Detector],
    training: Outputs | None,
    *,
    named: Sequence[str],
) -> dict[str, Fitted]:
    """Fit all detectors; one of ``auto`` that refuses the outputs is left out."""
    fitted: dict[str, Fitted] = {}
    refused: ValueError | None = None
    for text in bar(recipes, "fitting"):
        try:
            fitted[text] = recipes[text].fit(training)
        except ValueError as error:
            if text in named:
                raise
            OUT.say(escape(f"{text} is left out: {error}"))
            refused = refused or error
    if refused is not None and not fitted:
        raise refused
    return fitted


def _source(
    fitted: Mapping[str, Fitted],
    known: Outputs,
    unknowns: list[Outputs],
    objective: str | None,
    alpha: Alpha,
) -> Fitted | Choice:
    """Return the only detector, or the choice among several, which is printed."""
    if len(fitted) == 1:
        if thresholds.needs_unknowns(objective or "osa"):
            need_surrogate(unknowns, f"for --objective {objective or 'osa'}")
        return next(iter(fitted.values()))
    need_surrogate(unknowns, "to choose among detectors")
    choice = selection.choose(
        fitted, known=known, surrogate=Outputs.concat(unknowns), alpha=alpha
    )
    print_choice(choice)
    return choice


def _need_no_collapse(rejector: Rejector, *, accept_risk: bool) -> None:
    errors = [one.code for one in rejector.cautions if one.severity == "error"]
    if errors and not accept_risk:
        msg = (
            f"openset calibrate: not saved, because of {', '.join(errors)} above. Look "
            "at the data (labels, signs, surrogate), try another --detector or "
            "--objective, or take the threshold as it is: --accept-risk"
        )
        raise CalibrationError(msg)
