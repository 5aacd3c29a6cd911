"""`openset calibrate`."""

import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset._progress import bar
from openset.cli.options import Detectors, Json, made, need, read, refuse
from openset.cli.predict import sentence, shares_of
from openset.cli.terminal import ERR, OUT, pick, print_json, say, table


def command(
    out: Annotated[str, typer.Option("--out", "-o")],
    known: Path | None = None,
    train: Path | None = None,
    run: Path | None = None,
    detector: Detectors = None,
    surrogate: list[str] | None = None,
    objective: str = "osa",
    alpha: str = "0.5",
    sets: Annotated[float | None, typer.Option(metavar="SHARE")] = None,
    accept_risk: Annotated[bool, typer.Option("--accept-risk")] = False,
    test: Path | None = None,
    as_json: Json = False,
) -> None:
    """Choose a threshold on validation and surrogate data, and save a rejector.

    Several detectors are compared on kinds of surrogate samples that are held out in
    turn; the rejector uses a consensus (the mean rank by some of them), unless a single
    one is clearly better. Without --detector these are msp, maxlogit, rmds, vim and
    osnn, except those that need arrays which are missing.

        openset calibrate --train train.npz --known val.npz --surrogate near.npz --surrogate far.npz --test test.npz --out rejector/
        openset calibrate --run runs/a --out rejector/
        openset calibrate --known val.npz --surrogate negatives.npz -d energy --out rejector/
        openset calibrate --train train.npz --known val.npz --objective conformal:error_rate=0.05 --out rejector/
        openset calibrate --train train.npz --known val.npz --surrogate far.npz --sets 0.9 --out rejector/

    Parameters
    ----------
    out
        Folder to write the rejector to.
    known
        Labelled validation outputs, not trained on: .npz with the arrays logits,
        features, labels (or some of them), or a folder of such .npy files. Samples
        labelled -1 are used like those of --surrogate.
    run
        A folder of openset train: its outputs are --train, --known and --test, and
        --surrogate is left-out, unless you give these options.
    surrogate
        Outputs of samples of no known class, to choose the threshold with; their groups
        name the kinds. Or synthetic ones: mixup (mixtures of known samples) or left-out
        (known classes that are left out in turn). May be repeated.
    objective
        How the threshold is chosen: osa (best open-set accuracy), worst_group (best for
        the hardest kind), by_cost:missed_unknown=10 (lowest cost; also false_unknown,
        confusion), at_fpr:fpr=0.05 (share of unknown samples accepted), at_tpr:tpr=0.95
        (share of known samples accepted) or conformal:error_rate=0.05 (bound on
        rejected known samples). The last two need no unknown samples.
    alpha
        Share of known samples you expect in operation; counts: their share in the
        calibration data.
    sets
        Also calibrate prediction sets: for each accepted sample, the classes it may
        belong to. The share of the accepted known samples whose set must contain their
        class, such as 0.9.
    accept_risk
        Save the rejector even if its threshold rejects or accepts nearly everything
        (CAL001, CAL002; default: stop with an error).
    test
        Labelled test outputs: also print the results on them.
    """  # noqa: E501  # commands can be pasted
    from openset.rejector.files import check_destination  # noqa: PLC0415  # slow

    check_destination(out, caller="openset calibrate", name="--out")  # before the work
    if run is not None:
        parts = run / "outputs"
        train, known = train or parts / "train.npz", known or parts / "validation.npz"
        surrogate = surrogate or ["left-out"]
        if test is None and (parts / "test.npz").exists():
            test = parts / "test.npz"
    known = need(known, "--known must be given, or --run")
    tested = openset.Outputs.load(test) if test else None
    if tested is not None:
        refuse(tested.labels is None, f"{test} has no labels: use openset predict")
    training = openset.Outputs.load(train) if train else None
    validation, unknowns = _samples(known, surrogate or [])
    fitted = _fitted(detector or ["auto"], training, has_unknowns=bool(unknowns))
    weight, choice = read(alpha), None
    if len(fitted) > 1:
        refuse(not unknowns, "--surrogate must be given to choose among detectors")
        choice = openset.selection.choose(
            fitted,
            known=validation,
            surrogate=openset.Outputs.concat(unknowns),
            alpha=weight,
        )
    with warnings.catch_warnings():  # cautions are printed below
        warnings.simplefilter("ignore", openset.CalibrationWarning)
        rejector = openset.Rejector.calibrate(
            choice or next(iter(fitted.values())),
            known=validation,
            surrogate=unknowns,
            objective=objective,
            alpha=weight,
            train=training,
            accept_risk=accept_risk,
            sets=sets,
        )
    if not as_json:
        _print_report(rejector, choice)
    for one in rejector.cautions:
        style = "red" if one.severity == "error" else "yellow"
        say(f"{one.code} {one.message}", style=style, to=ERR if as_json else OUT)
    saved = rejector.save(out)
    on_test = None if tested is None else _on_test(rejector, tested, weight)
    if not as_json:
        say(f"wrote {saved}")
        if on_test:
            _print_test(on_test)
        return
    threshold = rejector.threshold.to_dict()
    del threshold["fingerprint"]  # hashes of the samples, for watch and the checks
    recipe, rule = rejector.fitted.detector, rejector.sets
    print_json(
        {
            "out": str(saved),
            "detector": {"name": recipe.name, "params": recipe.params()},
            "compared": list(choice.ranking) if choice else [],
            "threshold": threshold,
            "report": rejector.report.to_dict(),
            "sets": asdict(rule) if rule else None,
            "test": on_test,
        }
    )


def _samples(known: Path, surrogates: list[str]) -> tuple[Any, list[Any]]:
    """Load the known samples, and each set of unknown samples as a group."""
    validation, unknowns = openset.Outputs.load(known), []
    if validation.labels is not None:
        is_unknown = validation.labels == openset.UNKNOWN
        swapped = "Are --known and --surrogate swapped?"
        refuse(is_unknown.all(), f"{known} must have known samples. {swapped}")
        if is_unknown.any():
            unknowns = [_grouped(validation.take(is_unknown), known.stem)]
            validation = validation.take(~is_unknown)
    made_up = openset.selection.SYNTHETIC_KINDS
    files = [Path(name) for name in surrogates if name not in made_up]
    twice = len({path.resolve() for path in files}) < len(files)
    refuse(twice, "--surrogate must be different files: samples would count twice")
    stems = [path.stem for path in files]
    for path in map(Path, surrogates):
        if path not in files:
            unknowns.append(openset.selection.synthetic(validation, str(path)))
        else:
            is_only = stems.count(path.stem) == 1
            kind = path.stem if is_only else path.with_suffix("").as_posix()
            unknowns.append(_grouped(openset.Outputs.load(path), kind))
    return validation, unknowns


def _grouped(outputs: Any, name: str) -> Any:
    if outputs.groups is not None:
        return outputs
    return replace(outputs, groups=[name] * len(outputs))


def _fitted(texts: list[str], training: Any, *, has_unknowns: bool) -> dict[str, Any]:
    """Fit the detectors; one of ``auto`` that refuses the outputs is left out."""
    fitted: dict[str, Any] = {}
    suitable: tuple[str, ...] = ()
    if "auto" in texts:
        suitable, reason = openset.selection.suitable(training)
        if not has_unknowns:
            suitable = suitable[:1]
            reason = f"{suitable[0]}, as there are no unknown samples to compare on"
        say(f"detectors (auto): {reason}", to=ERR)
    wanted = made([*suitable, *(one for one in texts if one != "auto")], training)
    for text, one in bar(wanted.items(), "fitting", total=len(wanted)):
        try:
            fitted[text] = one.fit(training)
        except ValueError as error:
            if text not in suitable or (text == [*wanted][-1] and not fitted):
                raise
            say(f"{text} is left out: {error}", to=ERR)
    return fitted


def _on_test(rejector: Any, tested: Any, alpha: Any) -> dict[str, Any]:
    """Return the rates on test data, and OOSA where there are known and unknown."""
    scores = rejector.score(tested)
    rejector.threshold.check_disjoint(scores, caller="openset calibrate --test")
    has_both = scores.n_known and scores.n_unknown
    done = rejector.operate(tested, alpha=alpha).to_dict() if has_both else {}
    return shares_of(rejector.threshold.rates(scores)) | done


def _print_report(rejector: Any, choice: Any) -> None:
    report, detector = rejector.report, rejector.fitted.detector
    if choice:
        names = ("detector", "mean", "worst", "worst_group")
        one = "the given unknown samples (one kind, so none is held out)"
        where = "held-out kinds" if choice.n_kinds > 1 else one
        title = f"Open-set accuracy on {where}, alpha {choice.alpha:g}"
        table((pick(row, *names) for row in choice.ranking), title, bold=0)
        say(f"chosen: {choice}")
    parts = ", ".join(name for name, _ in getattr(detector, "parts", ()))
    summary = [("detector", f"{detector.name}: {parts}" if parts else detector.name)]
    summary += report.summary
    if rejector.sets is not None:
        summary.append(("prediction sets", str(rejector.sets)))
    table({"On the calibration data": name, "": text} for name, text in summary)
    if len(report.groups) > 1:
        columns = ("group", "n", "urr", "osa", "best", "loss")
        said = f"alpha {report.alpha:.3g}; the worst: {report.worst_group}"
        table((pick(row, *columns) for row in report.groups), f"Unknowns, {said}")


def _print_test(found: dict[str, Any]) -> None:
    say(f"On the test data: {sentence(found)}")
    if "oosa" in found:
        names = ("group", "n", "urr", "oosa", "oracle", "gap")
        rows = (pick(row, *names) for row in found["groups"])
        alpha = f"alpha {found['alpha_test']:.3g}"
        best = f"best with another threshold: {found['oracle']:.4f}"
        interval = f"{found['low']:.4f}–{found['high']:.4f}"
        said = f"Operational open-set accuracy (OOSA, {alpha})"
        table(rows, f"{said}: {found['oosa']:.4f} ({interval}); {best}")
