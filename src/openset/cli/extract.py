"""`openset extract`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from openset import _check, datasets
from openset._types import UNKNOWN, ArtefactError
from openset.cli._detector_options import Plugins
from openset.cli._options import naming
from openset.cli._tables import OUT
from openset.datasets import Dataset, lazy_inputs
from openset.datasets.lazy_inputs import ImageFiles, image_paths

EPILOG = """[bold]Examples[/bold]

openset extract runs/openauc new-images/ --out new-outputs.npz

openset extract runs/openauc svhn --part test --out svhn-outputs.npz

openset predict rejector/ new-outputs.npz"""

_CALLER = "openset extract"

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "name": "DATA",
    "root": "--root",
    "plugins": "--plugin",
}


@naming("openset extract", _OPTIONS)
def command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder written by openset train.")
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images (with or without a folder per class), a .npy or "
            ".npz file, or the name of a data set.",
        ),
    ],
    part: Annotated[
        str, typer.Option(help="Part of the data set, e.g. test (default: all parts).")
    ] = "",
    root: Annotated[
        Path | None, typer.Option(help="Folder where data sets are kept.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path(
        "outputs.npz"
    ),
    plugin: Plugins = None,
) -> None:
    """Run a trained network on other data and save its outputs.

    Samples of classes it was trained on (matched by name) get their labels, all others
    -1; groups are the class names. A folder of images without subfolders, and a .npy
    file, have no labels; such images form one group, named after the folder. The
    outputs hold the names of image files, which openset predict shows.
    """
    # Imported here: the extra may be missing.
    from openset.train import Trained  # noqa: PLC0415

    trained = Trained.load(run, plugins=plugin or ())
    unlabelled = _unlabelled(Path(data))
    if unlabelled is not None:
        inputs, groups = unlabelled
        labels = None
        _check_part(part, {})
    else:
        loaded = datasets.load(data, root)
        _check_part(part, loaded.parts)
        rows = loaded.parts[part] if part else np.arange(len(loaded.labels))
        inputs = lazy_inputs.take(loaded.inputs, rows)
        labels, groups = (one[rows] for one in _labelled(loaded, trained.classes))
    ids = _file_names(inputs, Path(data)) if isinstance(inputs, ImageFiles) else None
    outputs = trained.apply(inputs, labels=labels, groups=groups, ids=ids)
    outputs.save(out)
    OUT.print(f"{len(outputs)} samples → {out}", highlight=False, soft_wrap=True)
    if labels is not None and (labels != UNKNOWN).any():
        is_known = labels != UNKNOWN
        right = np.argmax(outputs.logits, axis=1) == labels  # type: ignore[arg-type]
        OUT.print(
            f"{is_known.sum()} samples of known classes, accuracy "
            f"{right[is_known].mean():.4f}",
            highlight=False,
        )


def _check_part(part: str, parts: Mapping[str, Any]) -> None:
    if part and not parts:
        rule, got = "left out for data without parts", repr(part)
        raise ValueError(_check.must(rule, caller=_CALLER, name="--part", got=got))
    if part:
        _check.one_of(_CALLER, "--part", part, sorted(parts))


def _unlabelled(path: Path) -> tuple[Any, NDArray[Any] | None] | None:
    """Return inputs and groups of unlabelled data; None if the data have labels."""
    if path.suffix == ".npy":
        return _array(path), None
    if not path.is_dir():
        return None
    files = [one for one in image_paths(path) if Path(one).parent == path]
    folders = [one for one in path.iterdir() if one.is_dir() and one.name[0] != "."]
    if files and folders:
        msg = _check.must(
            "a folder of images, or a folder with one folder per class",
            caller=_CALLER,
            name="DATA",
            got=f"{path} with both ({Path(files[0]).name}, {folders[0].name}/)",
            remedy="Images outside of the class folders would be left out",
        )
        raise ValueError(msg)
    if not files:
        return None
    return ImageFiles(tuple(files)), np.full(len(files), path.resolve().name)


def _array(path: Path) -> NDArray[Any]:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        rule = "an array of numbers written by np.save"
        got = "a damaged file, or pickled objects, which are never loaded"
        msg = _check.must(rule, caller=_CALLER, name=str(path), got=got)
        raise ArtefactError(msg) from error


def _file_names(images: ImageFiles, folder: Path) -> list[str]:
    """Return file names relative to the folder, or absolute if outside of it."""
    root = folder.resolve()
    paths = [Path(path).resolve() for path in images.paths]
    return [
        (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
        for path in paths
    ]


def _labelled(
    data: Dataset, known: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Return labels that index `known`, and the class name of each sample."""
    number = {name: i for i, name in enumerate(known)}
    # The last entry is for samples without a class, labelled -1.
    labels = np.array([number.get(name, UNKNOWN) for name in data.classes] + [UNKNOWN])
    names = np.array([*data.classes, data.unlisted])
    return labels[data.labels], names[data.labels]
