"""`openset calibrate`."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.markup import escape
from rich.table import Table

from openset import _check, _io, magnitudes, selection, thresholds
from openset._progress import bar
from openset._types import UNKNOWN, CalibrationError, CalibrationWarning
from openset.cli._cautions import print_cautions
from openset.cli._console import ERRORS, OUT, OnlyJson, print_json
from openset.cli._detector_options import need_training, recipe
from openset.cli._keys import Sign, read_key
from openset.cli._options import naming
from openset.detectors import Detector, Fitted, NegLabel
from openset.outputs import Outputs, replaced
from openset.rejector import Rejector, check_destination
from openset.selection import Choice
from openset.thresholds import Operation
from openset.thresholds.alpha import Alpha
from openset.thresholds.groups import SYNTHETIC_PREFIX

EPILOG = """[bold]Examples[/bold]

openset calibrate --train train.npz --known val.npz --surrogate near.npz \\
    --surrogate far.npz --test test.npz --out rejector/

openset calibrate --run runs/a --out rejector/

openset calibrate --known val.npz --surrogate negatives.npz -d energy \\
    --out rejector/

openset calibrate --train train.npz --known val.npz --objective conformal \\
    --target 0.05 --out rejector/

openset calibrate --train train.npz --known val.npz --surrogate far.npz \\
    --sets lac --coverage 0.9 --out rejector/"""

_AUTO = "auto"
_COMPARED = (None, "anchored", "osa", "worst_group", "by_cost")  # by what they aim at
_TARGETS = {"at_fpr": "fpr", "at_tpr": "tpr", "conformal": "error_rate"}
_SEEN = 0.3  # larger shares of equal samples are not a coincidence
_COSTS = ("missed_unknown", "false_unknown", "confusion")

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
    "cost_matrix": "--cost-matrix",
    "known": "--known",
    "surrogate": "--surrogate",
    "sets": "--sets",
    "coverage": "--coverage",
    "sets_known": "--sets-known",
    "key": "--sign",
}


@naming("openset calibrate", _OPTIONS)
def command(
    out: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Folder to write the rejector to, or a URL such as s3://bucket/name.",
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
    train: Annotated[
        Path | None,
        typer.Option(
            help="Outputs of the training split, to fit the detectors on. Not needed "
            "for detectors that need no fitting (msp, maxlogit, energy, gen)."
        ),
    ] = None,
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
            help="How the threshold is chosen: osa (best open-set accuracy), anchored "
            "(for kinds of unknowns that are not given), worst_group (best for the "
            "hardest kind), per_class (one per predicted class), by_cost (lowest "
            "cost), at_fpr, at_tpr (a given rate, see --target) or conformal (a bound "
            "on rejected known samples). Default: osa; with several detectors, osa or "
            "anchored, depending on the detector that is chosen."
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
    cost_matrix: Annotated[
        Path | None,
        typer.Option(
            help="For by_cost, instead of the three costs: a .csv or .npy file "
            "with one row per true class and one column per decision, "
            "unknown last.",
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
        str | None,
        typer.Option(
            help="Also calibrate prediction sets: for each accepted sample, the "
            "classes it may belong to. lac: the smallest sets on average; raps: "
            "larger sets for harder samples (default: no sets)."
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="For --sets: share of the accepted known samples whose set must "
            "contain their class (default: 0.9)."
        ),
    ] = None,
    by_class: Annotated[
        bool,
        typer.Option(
            "--by-class",
            help="For --sets: reach the coverage for every class "
            "(default: only over all classes together).",
        ),
    ] = False,
    sets_known: Annotated[
        Path | None,
        typer.Option(
            help="For --sets: labelled outputs other than --known, so that the "
            "coverage is guaranteed. By default --known is used again, and the "
            "coverage is approximate."
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Labelled test outputs: also print the results on them."),
    ] = None,
    sign: Sign = None,
    as_json: OnlyJson = False,
) -> None:
    """Choose a threshold on validation and surrogate data, and save a rejector."""
    # Check all options before the work starts.
    if run is not None:
        train, known, surrogate, test = _from_run(run, train, known, surrogate, test)
    if known is None:
        msg = (
            "openset calibrate: --known must be given, got none. Give labelled outputs "
            "that were not trained on, or a training folder: --run"
        )
        raise typer.BadParameter(msg)
    check_destination(out, caller="openset calibrate", name="--out")
    key = read_key(sign)
    costs = dict(zip(_COSTS, (missed_unknown, false_unknown, confusion), strict=True))
    options = _options(objective, target) | _costs(objective, costs, cost_matrix)
    thresholds.check_options("openset calibrate", objective or "osa", options)
    for_sets = _sets(sets, coverage, sets_known, by_class=by_class)
    weight = _alpha(alpha)
    tested = None if test is None else _labelled(test)
    training = None if train is None else Outputs.load(train)
    validation, unknowns = _split(known, surrogate or [])
    if train is not None and training is not None:
        _compare_rows(train, training, known, validation)
    recipes = _recipes(detector or [_AUTO], training, unknowns)
    with _io.naming(train or known):
        fitted = _fitted(recipes, training, named=detector or ())
    source: Fitted | Choice = next(iter(fitted.values()))
    if len(fitted) > 1:
        _need_surrogate(unknowns, "to choose among detectors")
        source = selection.choose(
            fitted,
            known=validation,
            surrogate=Outputs.concat(unknowns),
            objectives=objective,
            options=options,
            alpha=weight,
            progress=True,
        )
        _print_choice(source, aims=objective not in _COMPARED)
    elif (objective or "osa") in thresholds.objectives(needs_unknowns=True):
        _need_surrogate(unknowns, f"for --objective {objective or 'osa'}")
    # The words that NegLabel is fitted on are no samples of classes to leave out.
    is_of_words = all(isinstance(one, NegLabel) for one in recipes.values())
    with warnings.catch_warnings():  # they are printed below
        warnings.simplefilter("ignore", CalibrationWarning)
        rejector = Rejector.calibrate(
            source,
            known=validation,
            surrogate=unknowns,
            objective=objective,
            alpha=weight,
            train=None if is_of_words else training,
            accept_risk=True,
            **for_sets,
            **options,
        )
    _print_magnitudes(validation, unknowns)
    _print_report(rejector)
    _need_no_collapse(rejector, accept_risk=accept_risk)
    saved = str(rejector.save(out, key=key))
    OUT.print(f"wrote {saved}", highlight=False)
    on_test: dict[str, Any] | None = None
    if tested is not None:
        on_test = _print_test(rejector, tested, weight)
    if tested is not None and on_test is not None and objective == "by_cost":
        on_test["cost"] = _print_cost(rejector, tested, weight, options)
    if as_json:
        print_json(_document(rejector, source, saved, on_test))


def _document(
    rejector: Rejector,
    source: Fitted | Choice,
    out: str,
    on_test: dict[str, Any] | None,
) -> dict[str, Any]:
    threshold = rejector.threshold.to_dict()
    del threshold["fingerprint"]  # hashes of the samples, for watch and the checks
    detector, sets = rejector.fitted.detector, rejector.sets
    return {
        "out": out,
        "detector": {"name": detector.name, "params": detector.params()},
        "compared": list(source.ranking) if isinstance(source, Choice) else [],
        "threshold": threshold,
        "report": rejector.report.to_dict(),
        "sets": None if sets is None else sets.to_dict(),
        "test": on_test,
    }


def _from_run(
    run: Path,
    train: Path | None,
    known: Path | None,
    surrogate: list[str] | None,
    test: Path | None,
) -> tuple[Path, Path, list[str], Path | None]:
    """Fill in what is not given from the outputs of a training folder."""
    folder = run / "outputs"
    for name, given in (("train", train), ("validation", known)):
        if given is None and not (folder / f"{name}.npz").exists():
            msg = (
                f"openset calibrate: --run must be a folder of openset train with "
                f"{name} outputs, got {run}, which has no outputs/{name}.npz. "
            )
            if name == "validation" and folder.exists():
                msg += "Give --known, or train with --validation 0.1"
            raise FileNotFoundError(msg)
    if not surrogate:
        surrogate = ["left-out"]
        OUT.print(
            "no --surrogate given: known classes, left out in turn, stand in for "
            "unknowns (--surrogate left-out)",
            highlight=False,
        )
    tested = test or folder / "test.npz"
    return (
        train or folder / "train.npz",
        known or folder / "validation.npz",
        surrogate,
        tested if test or tested.exists() else None,
    )


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
            OUT.print(f"{text} is left out: {error}", highlight=False, soft_wrap=True)
            refused = refused or error
    if refused is not None and not fitted:
        raise refused
    return fitted


def _alpha(text: str) -> Alpha:
    if text == "counts":
        return "counts"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        msg = _check.must(
            "a number in [0, 1] or counts",
            caller="openset calibrate",
            name="--alpha",
            got=text,
        )
        raise ValueError(msg)
    return number


def _options(objective: str | None, target: float | None) -> dict[str, Any]:
    """Return the target under the objective's own name for it."""
    if target is None:
        return {}
    if objective not in _TARGETS:
        names = ", ".join(_TARGETS)
        msg = f"openset calibrate: --target can only be used with --objective {names}"
        raise typer.BadParameter(msg)
    return {_TARGETS[objective]: target}


def _sets(
    sets: str | None, coverage: float | None, known: Path | None, *, by_class: bool
) -> dict[str, Any]:
    """Return the options of prediction sets."""
    given = {"--coverage": coverage, "--sets-known": known, "--by-class": by_class}
    if sets is None:
        extra = [name for name, value in given.items() if value not in {None, False}]
        if extra:
            msg = f"openset calibrate: {extra[0]} can only be used with --sets"
            raise typer.BadParameter(msg)
        return {}
    return {
        "sets": sets,
        "coverage": 0.9 if coverage is None else coverage,
        "by_class": by_class,
        "sets_known": None if known is None else Outputs.load(known),
    }


def _costs(
    objective: str | None, costs: dict[str, float | None], matrix: Path | None
) -> dict[str, Any]:
    """Return the options of `by_cost`."""
    given: dict[str, Any] = {n: cost for n, cost in costs.items() if cost is not None}
    if matrix is not None and given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        msg = f"openset calibrate: --cost-matrix and {names} cannot be combined"
        raise typer.BadParameter(msg)
    if matrix is not None:
        given["cost_matrix"] = _matrix(matrix)
    if given and objective != "by_cost":
        msg = "openset calibrate: costs can only be given with --objective by_cost"
        raise typer.BadParameter(msg)
    return given


def _matrix(path: Path) -> NDArray[Any]:
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        rows = [row for row in path.read_text("utf-8").splitlines() if row.strip()]
        return np.array([[float(x) for x in row.split(",")] for row in rows])
    except (ValueError, EOFError) as error:
        msg = (
            "openset calibrate: --cost-matrix must be a file of comma-separated "
            f"numbers, or a .npy array, got {path} ({error})"
        )
        raise ValueError(msg) from error


def _compare_rows(train: Path, training: Outputs, known: Path, held: Outputs) -> None:
    """Warn if the threshold is to be chosen on samples the detector was fitted on."""
    share = np.isin(_rows(held), _rows(training)).mean()
    if share > _SEEN:
        ERRORS.print(
            f"[yellow]{share:.0%} of the samples of {escape(str(known))} are in "
            f"{escape(str(train))}[/yellow]: a threshold chosen on samples the "
            "detector was fitted on looks better than it is. Use samples held out of "
            "training.",
            highlight=False,
        )


def _rows(outputs: Outputs) -> NDArray[np.uint64]:
    """Return a key per sample, made from two of its numbers."""
    values = outputs.logits if outputs.logits is not None else outputs.features
    ends = np.asarray(values)[:, [0, -1]].astype(np.float32)
    return np.ascontiguousarray(ends).view(np.uint64).ravel()


def _need_surrogate(sets: list[Outputs], what: str) -> None:
    if not sets:
        msg = (
            f"openset calibrate: --surrogate must be given {what}, got none. Give "
            "a file with outputs of unknown samples, or mixup or left-out to "
            "make synthetic ones; or use --objective "
            f"{' or '.join(thresholds.objectives(needs_unknowns=False))} with one "
            "detector"
        )
        raise ValueError(msg)


def _split(known: Path, surrogates: list[str]) -> tuple[Outputs, list[Outputs]]:
    """Load the known samples, and each set of unknown samples as a group."""
    validation = Outputs.load(known)
    sets = []
    labels = validation.labels
    if labels is not None and (labels == UNKNOWN).all():
        msg = (
            "openset calibrate: --known must have samples of known classes, got only "
            f"unknowns in {known}. Are --known and --surrogate swapped?"
        )
        raise ValueError(msg)
    if labels is not None and (labels == UNKNOWN).any():
        sets.append(_grouped(validation.take(labels == UNKNOWN), known.stem))
        validation = validation.take(labels != UNKNOWN)
    for name in surrogates:
        if name in selection.SYNTHETIC_KINDS:
            sets.append(selection.synthetic(validation, name))
        elif Path(name).exists():
            sets.append(_grouped(Outputs.load(name), Path(name).stem))
        else:
            msg = (
                f"openset calibrate: --surrogate must be a file, a folder or one of "
                f"{', '.join(selection.SYNTHETIC_KINDS)}, got {name}, which does not "
                "exist"
            )
            raise FileNotFoundError(msg)
    return validation, sets


def _grouped(outputs: Outputs, name: str) -> Outputs:
    if outputs.groups is not None:
        return outputs
    return replaced(outputs, groups=np.full(len(outputs), name))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return table


def _print_choice(choice: Choice, *, aims: bool) -> None:
    measure = {"oosa": "Open-set accuracy", "cost": "Cost of a decision"}
    where = f"held-out {choice.left_out}"
    if choice.left_out == "nothing":
        where = "the given unknown samples (one kind, so none is held out)"
    table = _table(
        f"{measure[choice.measure]} on {where}, alpha {choice.alpha:g}",
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
    if choice.is_combined and choice.by != "new kind":
        OUT.print(
            "A combination is compared with the row 'choosing one' (the best single "
            "detector, selected without the group it is tested on): the best row of "
            "single detectors is too optimistic, because it was selected on the same "
            "samples.",
            style="dim",
        )
    if aims:
        OUT.print(
            f"Thresholds are chosen by {choice.objective}; detectors are compared by "
            "open-set accuracy.",
            style="dim",
        )
    OUT.print(f"chosen: {choice}\n", highlight=False)


def _print_magnitudes(known: Outputs, sets: Sequence[Outputs]) -> None:
    """Say whether unknown features are longer, and whether dividing by it helps."""
    # Features of made-up unknowns did not pass through the network.
    real = [one for one in sets if not _is_synthetic(one)]
    if not real or any(one.features is None for one in (known, *real)):
        return
    named = {str(i): one.as_unknown() for i, one in enumerate(real)}
    found = magnitudes.measure({"known": known} | named)
    OUT.print(found.sentence(), highlight=False)


def _is_synthetic(one: Outputs) -> bool:
    return one.groups is not None and str(one.groups[0]).startswith(SYNTHETIC_PREFIX)


def _print_report(rejector: Rejector) -> None:
    report = rejector.report
    table = Table(
        title="On the calibration data",
        title_justify="left",
        box=None,
        pad_edge=False,
        show_header=False,
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("detector", rejector.fitted.detector.name)
    for name, text in report.summary:
        table.add_row(name, escape(text))
    if rejector.sets is not None:
        table.add_row("prediction sets", escape(str(rejector.sets)))
    OUT.print()
    OUT.print(table, highlight=False)
    if len(report.groups) > 1:
        table = _table("", "unknowns", "n", "rejected", "OSA", "best OSA", "loss")
        for row in report.groups:
            mark = " (worst)" if row["group"] == report.worst_group else ""
            table.add_row(
                escape(row["group"]) + mark,
                str(row["n"]),
                f"{row['urr']:.4f}",
                f"{row['osa']:.4f}",
                f"{row['best']:.4f}",
                f"{row['loss']:.4f}",
            )
        OUT.print(table)
    print_cautions(rejector, ERRORS if OUT.quiet else OUT)


def _need_no_collapse(rejector: Rejector, *, accept_risk: bool) -> None:
    errors = [one.code for one in rejector.cautions if one.severity == "error"]
    if errors and not accept_risk:
        msg = (
            f"openset calibrate: not saved, because of {', '.join(errors)} above. Look "
            "at the data (labels, signs, surrogate), try another --detector or "
            "--objective, or take the threshold as it is: --accept-risk"
        )
        raise CalibrationError(msg)


def _labelled(path: Path) -> Outputs:
    outputs = Outputs.load(path)
    if outputs.labels is None:
        msg = (
            f"openset calibrate: --test must be labelled, got {path} without "
            "labels. Label unknown samples -1; for unlabelled outputs use "
            "openset predict"
        )
        raise ValueError(msg)
    return outputs


def _print_test(rejector: Rejector, test: Outputs, alpha: Alpha) -> dict[str, Any]:
    """Print the results on test data, and return them."""
    labels = np.asarray(test.labels)
    if (labels == UNKNOWN).any() and (labels != UNKNOWN).any():
        done = rejector.operate(test, alpha=alpha)
        _print_operation(done)
        return done.to_dict()
    scores = rejector.score(test)
    rejector.threshold.check_disjoint(scores, caller="openset calibrate")
    rates = rejector.threshold.rates(scores)
    if rates.n_unknown:
        text = f"{rates.urr:.1%} of {len(test)} unknown samples rejected"
    else:
        text = (
            f"{rates.tpr:.1%} of {len(test)} known samples accepted, {rates.ccr:.1%} "
            "accepted with the right class"
        )
    OUT.print(f"On the test data: {text}", highlight=False)
    if rates.n_unknown:
        return {"urr": rates.urr}
    return {"accepted_known": rates.tpr, "ccr": rates.ccr}


def _print_cost(
    rejector: Rejector, test: Outputs, alpha: Alpha, prices: dict[str, Any]
) -> float:
    scores = rejector.fitted.score(test)
    paid = thresholds.cost(scores, rejector.threshold, alpha=alpha, **prices)
    text = f"Cost of a decision on the test data: {paid:.4g}"
    if scores.n_known and scores.n_unknown:
        least = thresholds.by_cost(scores, alpha=alpha, **prices).rate.value
        text += f" (with the best threshold for these samples: {least:.4g})"
    OUT.print(text, highlight=False)
    return paid


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
            escape(row["group"]),
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
