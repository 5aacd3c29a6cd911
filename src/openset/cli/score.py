"""`openset score`."""

from pathlib import Path
from typing import Annotated

import typer

from openset import _check, _io, detectors
from openset.cli._detector_options import need_training, recipe
from openset.cli._options import naming
from openset.cli._tables import ERRORS, OUT
from openset.outputs import Outputs

EPILOG = """[bold]Examples[/bold]

openset score --detector postmax --train train.npz test.npz --out scores.npz

openset score -d energy test.npz --out scores.npz

openset score -d msp -d postmax -d knn:k=20 --train train/ test/ --out scores/

openset compare scores/*.npz"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "batch_size": "--batch-size",
}


@naming("openset score", _OPTIONS)
def command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="TEST", help="Outputs to score: .npz, or a folder of .npy files."
        ),
    ],
    detector: Annotated[
        list[str],
        typer.Option(
            "--detector",
            "-d",
            help="A detector: a name from `openset detectors`, or "
            "package.module:Class; options follow after a colon (knn:k=20). "
            "May be repeated.",
        ),
    ],
    train: Annotated[
        Path | None,
        typer.Option(
            help="Outputs of the training split, to fit the detectors on. Not needed "
            "for those that learn nothing (msp, maxlogit, energy, gen)."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="File to write (.npz, .csv, .parquet); a folder for several "
            "detectors.",
        ),
    ] = Path("scores"),
    batch_size: Annotated[
        int | None,
        typer.Option(help="Number of samples per batch (default: chosen by size)."),
    ] = None,
) -> None:
    """Fit detectors on training outputs and score test outputs."""
    recipes = {text: recipe(text) for text in detector}
    if out.suffix and len(recipes) > 1:
        msg = _check.must(
            "a folder for several detectors",
            caller="openset score",
            name="--out",
            got=str(out),
        )
        raise ValueError(msg)
    if out.suffix:
        endings = [".npz", ".csv", ".parquet"]
        _check.one_of("openset score", f"the ending of {out.name}", out.suffix, endings)
    if batch_size is not None:
        _check.positive_int("openset score", "--batch-size", batch_size)
    need_training(recipes, train, caller="openset score")
    train_outputs, test = Outputs.load(train) if train else None, Outputs.load(path)
    if test.labels is None:
        msg = (
            f"openset score: {path} must hold labels, got none. Scores are for "
            "evaluation; for unlabelled outputs use openset predict"
        )
        raise ValueError(msg)
    fitted = {}
    with ERRORS.status("") as status:
        for text, one in recipes.items():
            status.update(f"fitting {text}")
            with _io.naming(train or path):
                fitted[text] = one.fit(train_outputs)
    with _io.naming(path):
        scores = detectors.score_all(fitted, test, batch_size=batch_size, progress=True)
    for text, found in scores.items():
        file = out if out.suffix else out / f"scores-{_file_name(text)}.npz"
        found.save(file)
        line = f"{text}: {found!r} → {file}"
        OUT.print(line, markup=False, highlight=False, soft_wrap=True)


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.=" else "-" for c in text)
