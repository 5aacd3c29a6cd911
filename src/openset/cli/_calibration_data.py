"""`openset calibrate`: read and check the outputs it is given."""

from collections import Counter
from pathlib import Path

import numpy as np
from rich.markup import escape

from openset import selection, thresholds
from openset._types import UNKNOWN
from openset.cli._console import ERRORS, OUT
from openset.outputs import Outputs, replaced

_SEEN = 0.3  # larger shares of equal samples are not a coincidence


def from_run(
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
                f"{name} outputs, got {run}, which has no outputs/{name}.npz"
            )
            if not run.exists():
                msg = f"openset calibrate: no such folder: {run}"
            elif name == "validation" and folder.exists():
                msg += ". Give --known, or train with --validation 0.1"
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


def read_known(known: Path, surrogates: list[str]) -> tuple[Outputs, list[Outputs]]:
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
    kinds = _kinds([Path(s) for s in surrogates if s not in selection.SYNTHETIC_KINDS])
    for name in surrogates:
        if name in selection.SYNTHETIC_KINDS:
            sets.append(selection.synthetic(validation, name))
        elif Path(name).exists():
            sets.append(_grouped(Outputs.load(name), kinds[Path(name)]))
        else:
            msg = (
                f"openset calibrate: --surrogate must be a file, a folder or one of "
                f"{', '.join(selection.SYNTHETIC_KINDS)}, got {name}, which does not "
                "exist"
            )
            raise FileNotFoundError(msg)
    return validation, sets


def _kinds(paths: list[Path]) -> dict[Path, str]:
    """Name the kind of each file; files of one name in different folders are two."""
    places = Counter(path.resolve() for path in paths)
    twice = [path for path in paths if places[path.resolve()] > 1]
    if twice:
        msg = (
            "openset calibrate: --surrogate must be different files, got "
            f"{twice[0]} several times. Its samples would count several times"
        )
        raise ValueError(msg)
    stems = Counter(path.stem for path in paths)
    return {
        path: path.stem if stems[path.stem] == 1 else path.with_suffix("").as_posix()
        for path in paths
    }


def _grouped(outputs: Outputs, name: str) -> Outputs:
    if outputs.groups is not None:
        return outputs
    return replaced(outputs, groups=np.full(len(outputs), name))


def read_labelled(path: Path) -> Outputs:
    """Load the test outputs; raise if they have no labels."""
    outputs = Outputs.load(path)
    if outputs.labels is None:
        msg = (
            f"openset calibrate: --test must be labelled, got {path} without "
            "labels. Label unknown samples -1; for unlabelled outputs use "
            "openset predict"
        )
        raise ValueError(msg)
    return outputs


def need_surrogate(sets: list[Outputs], what: str) -> None:
    """Raise if there are no unknown samples."""
    if not sets:
        msg = (
            f"openset calibrate: --surrogate must be given {what}, got none. Give "
            "a file with outputs of unknown samples, or mixup or left-out to "
            "make synthetic ones; or use --objective "
            f"{' or '.join(thresholds.objectives(needs_unknowns=False))} with one "
            "detector"
        )
        raise ValueError(msg)


def compare_labels(train: Path, training: Outputs) -> None:
    """Warn if the labels of training samples are not the classes of the network."""
    labels, logits = training.labels, training.logits
    rows = None if labels is None else np.flatnonzero(labels != UNKNOWN)
    if labels is None or logits is None or rows is None or not rows.size:
        return
    known = labels[rows]
    right = float(np.mean(np.argmax(np.asarray(logits), axis=1)[rows] == known))
    commonest = float(np.bincount(known).max() / known.size)
    if right < commonest < 1:
        ERRORS.print(
            f"[yellow]The predicted class is right for only {right:.1%} of the samples "
            f"of {escape(str(train))}[/yellow] ({commonest:.1%} belong to one class). "
            "Do the labels number the classes as the network does, and are they in the "
            "order of its outputs?",
            highlight=False,
        )
