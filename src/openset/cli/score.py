"""`openset score`."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

import openset
from openset import _io, _plugins
from openset.cli.options import (
    Backend,
    Detectors,
    keep_inputs,
    made,
    refuse,
    run_shards,
)
from openset.cli.terminal import say


def command(
    test: Annotated[str, typer.Argument(metavar="TEST")],
    detector: Detectors = None,
    train: Path | None = None,
    out: Annotated[str, typer.Option("--out", "-o")] = "scores",
    jobs: int = -1,
    backend: Backend = "loky",
) -> None:
    """Fit detectors on training outputs and score test outputs.

    For a folder of shards, --out gets one file per shard and detector, as soon as the
    shard is finished; run the same command again to continue.

        openset score -d energy test.npz --out scores.npz
        openset score -d msp -d postmax -d knn:k=20 --train train.npz test.npz -o out/
        openset compare scores/*.npz
        openset score -d postmax --train train/ shards/ --out scores/ --jobs 8

    Parameters
    ----------
    test
        Outputs to score: .npz, or a folder of .npy files; or a folder, or a URL such as
        s3://bucket/shards, of many such shards (.npz, .parquet, folders).
    out
        File to write (.npz, .csv, .parquet), or a folder, which gets one file per
        detector; for shards, a folder or a URL.
    """
    refuse(not detector, "--detector must be given, such as -d msp")
    recipes = made(detector or (), train)
    of_shards = openset.shards.is_folder_of_shards(test)
    is_file = not _io.is_url(out) and bool(Path(out).suffix)
    refuse(is_file and len(recipes) > 1, "--out must be a folder for several detectors")
    refuse(is_file and of_shards, "--out must be a folder for a folder of shards")
    stems = {text: f"scores-{_plain(text)}" for text in recipes}
    same = len({stem.lower() for stem in stems.values()}) < len(stems)
    refuse(same, f"two detectors would write one file: {', '.join(stems)}")
    keep_inputs(Path(out) if is_file else None, test, train)
    with _io.naming(Path(train or "")):
        training = openset.Outputs.load(train) if train else None
        fitted = {text: one.fit(training) for text, one in recipes.items()}
    if of_shards:
        with tempfile.TemporaryDirectory(prefix="openset-fitted-") as folder:
            place = Path(folder if _io.is_url(out) else f"{out}/fitted").resolve()
            saved = [
                (stems[text], one.save(place / f"{stems[text]}.npz"))
                for text, one in fitted.items()
            ]
            own = [
                k for k in map(type, recipes.values()) if not _plugins.is_built_in(k)
            ]
            plugins = tuple(map(_plugins.reference, own))
            job = openset.shards.Score(tuple(saved), plugins=plugins)
            run_shards(job, test, out, jobs=jobs, backend=backend)
        return
    with _io.naming(Path(test)):
        outputs = openset.Outputs.load(test)
        scores = openset.detectors.score_all(fitted, outputs, progress=True)
    for text, one in scores.items():
        path = one.save(Path(out) if is_file else Path(out, f"{stems[text]}.npz"))
        counts = f"{one.n_known} known and {one.n_unknown} unknown samples"
        say(f"{text}: {counts} → {path}")


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.=" else "-" for c in text)
