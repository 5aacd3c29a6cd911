"""`openset score`."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from openset import _check, _io, detectors, shards
from openset._plugins import is_built_in, reference
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Train, need_training, recipe
from openset.cli._errors_in_options import keep_inputs, naming
from openset.cli._shards import (
    SHARD_OPTIONS,
    Backend,
    Format,
    Jobs,
    backend_options,
    need_folder,
    refuse,
    run_shards,
)
from openset.detectors import Detector, Fitted
from openset.outputs import Outputs
from openset.scores import Scores

EPILOG = """[bold]Examples[/bold]

openset score --detector postmax --train train.npz test.npz --out scores.npz

openset score -d energy test.npz --out scores.npz

openset score -d msp -d postmax -d knn:k=20 --train train/ test/ --out scores/

openset compare scores/*.npz

openset score -d postmax --train train/ shards/ --out scores/ --jobs 8"""

# What one detector cannot do with these data may be right for another.
_FAILURES = (ValueError, TypeError, ArithmeticError, MemoryError)

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "batch_size": "--batch-size",
    **SHARD_OPTIONS,
}


@naming("openset score", _OPTIONS)
def command(
    given: Annotated[
        str,
        typer.Argument(
            metavar="TEST",
            help="Outputs to score: .npz, or a folder of .npy files; or a folder, or a "
            "URL such as s3://bucket/shards, of many such shards (.npz, .parquet, "
            "folders).",
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
    train: Train = None,
    place: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="File to write (.npz, .csv, .parquet), or a folder, which gets one "
            "file per detector; for shards, a folder or a URL.",
        ),
    ] = "scores",
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Number of samples per batch; smaller batches need less "
            "memory and give the same scores (default: chosen by the size of a sample)."
        ),
    ] = None,
    format_: Format = None,
    jobs: Jobs = None,
    backend: Backend = None,
) -> None:
    """Fit detectors on training outputs and score test outputs.

    For a folder of shards, --out gets one file of scores per shard and detector, as
    soon as the shard is finished. Run the same command again to continue.

    If a detector of several cannot be fitted or scored, the others are, the reason is
    printed, and the exit code is 1. (For shards, all must be fitted before the run.)
    """
    recipes = {text: recipe(text) for text in detector}
    _need_different_files(recipes)
    path, out = Path(given), Path("" if _io.is_url(place) else place)
    if out.suffix and len(recipes) > 1:
        msg = _check.must(
            "a folder for several detectors",
            caller="openset score",
            name="--out",
            got=str(out),
        )
        raise ValueError(msg)
    if out.suffix:
        _check.ending("openset score", out, [".npz", ".csv", ".parquet"])
        keep_inputs("openset score", out, path, train)
    if batch_size is not None:
        _check.positive_int("openset score", "--batch-size", batch_size)
    need_training(recipes, train, caller="openset score")
    train_outputs = Outputs.load(train) if train else None
    if shards.is_folder_of_shards(given):
        need_folder("openset score", place)
        listed = shards.find(given)
        with _folder_of_fitted(place) as folder:
            files = {
                text: (folder / f"scores-{_file_name(text)}.npz").resolve()
                for text in recipes
            }
            job = shards.Score(
                tuple((file.stem, file) for file in files.values()),
                format=format_ or "parquet",
                plugins=_plugins(recipes),
            )
            options = backend_options("openset score", backend=backend, jobs=jobs)
            fitted, failed = _fit(recipes, train_outputs, train or path)
            if failed:  # later the folder could not be continued with all of them
                _say_failed(failed)
                raise typer.Exit(1)
            # Saved for the workers.
            for text, one in fitted.items():
                one.save(files[text])
            run_shards(job, listed, place, **options)
        return
    refuse("openset score", format_=format_, jobs=jobs, backend=backend)
    test = Outputs.load(path)
    if test.labels is None:
        msg = (
            f"openset score: {path} must hold labels, got none. Scores are for "
            "evaluation; for unlabelled outputs use openset predict"
        )
        raise ValueError(msg)
    fitted, failed = _fit(recipes, train_outputs, train or path)
    scores, unscored = _scored(fitted, test, path, batch_size)
    failed |= unscored
    for text, found in scores.items():
        file = out if out.suffix else out / f"scores-{_file_name(text)}.npz"
        found.save(file)
        line = (
            f"{text}: {found.n_known} known and {found.n_unknown} unknown samples "
            f"→ {file}"
        )
        OUT.print(line, markup=False, highlight=False, soft_wrap=True)
    if failed:
        _say_failed(failed)
        raise typer.Exit(1)


def _fit(
    recipes: Mapping[str, Detector], train: Outputs | None, path: Path
) -> tuple[dict[str, Fitted], dict[str, Exception]]:
    """Fit detectors; return also those that cannot be, if there are others."""
    fitted: dict[str, Fitted] = {}
    failed: dict[str, Exception] = {}
    with ERRORS.status("") as status:
        for text, one in recipes.items():
            status.update(f"fitting {text}")
            try:
                with _io.naming(path):
                    fitted[text] = one.fit(train)
            except _FAILURES as error:
                if len(recipes) == 1:
                    raise
                failed[text] = error
    return fitted, failed


def _scored(
    fitted: Mapping[str, Fitted], test: Outputs, path: Path, batch_size: int | None
) -> tuple[dict[str, Scores], dict[str, Exception]]:
    """Score all detectors in one pass; if one fails, each in a pass of its own."""

    def score(some: Mapping[str, Fitted]) -> dict[str, Scores]:
        with _io.naming(path):
            return detectors.score_all(some, test, batch_size=batch_size, progress=True)

    if not fitted:
        return {}, {}
    try:
        return score(fitted), {}
    except _FAILURES:
        if len(fitted) == 1:
            raise
    found: dict[str, Scores] = {}
    failed: dict[str, Exception] = {}
    for text, one in fitted.items():
        try:
            found |= score({text: one})
        except _FAILURES as error:
            failed[text] = error
    return found, failed


def _say_failed(failed: Mapping[str, Exception]) -> None:
    for text, error in failed.items():
        ERRORS.say(f"[bold red]failed:[/bold red] {escape(f'{text}: {error}')}")


@contextmanager
def _folder_of_fitted(place: str) -> Iterator[Path]:
    """Give a folder for fitted detectors: in --out, or a local one if that is a URL."""
    if not _io.is_url(place):
        yield Path(place) / "fitted"
        return
    with tempfile.TemporaryDirectory(prefix="openset-fitted-") as folder:
        yield Path(folder)


def _plugins(recipes: Mapping[str, Detector]) -> tuple[str, ...]:
    """Return the detectors that workers have to import: those named module:Class."""
    kinds = [type(one) for one in recipes.values() if not is_built_in(type(one))]
    return tuple(map(reference, kinds))


def _need_different_files(texts: Iterable[str]) -> None:
    """Raise if two detectors would share a file, where letter case does not count."""
    taken: dict[str, str] = {}
    for text in texts:
        other = taken.setdefault(_file_name(text).lower(), text)
        if other != text:
            msg = _check.must(
                "detectors whose files have different names",
                caller="openset score",
                name="--detector",
                got=f"{other} and {text}",
                remedy="Score them one at a time, each with its own --out",
            )
            raise ValueError(msg)


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.=" else "-" for c in text)
