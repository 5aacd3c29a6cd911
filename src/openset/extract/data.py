"""Outputs of a network for data by name: folders, lists, texts, arrays, archives."""

import tarfile
import tempfile
import textwrap
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize

import numpy as np

from openset import _check, _io, datasets
from openset._types import UNKNOWN, ArtefactError, InvalidSamplesError
from openset.datasets import image_lists, lazy_inputs
from openset.datasets.image_lists import ImageList
from openset.datasets.lazy_inputs import (
    DamagedImageError,
    ImageFiles,
    image_paths,
    is_image,
)
from openset.extract.load import load
from openset.extract.network import Network
from openset.outputs import Outputs

_CALLER = "extract.run"
_LONGEST = 80  # characters of a text


def run(
    network: Network | str | Path,
    data: str | Path,
    *,
    part: str = "",
    root: str | Path | None = None,
    image_list: ImageList | str | Path | None = None,
    **how: Any,
) -> Outputs:
    """Return the outputs of a network for data by name.

    Samples of classes of the network (by name) get their labels, all others -1; groups
    are the names of the classes, and ids the names of image files or the beginnings of
    texts. An embedding model has the classes of the data.

    Parameters
    ----------
    network
        What :func:`openset.extract.load` returns, or takes.
    data
        A folder of images, with or without a folder per class; a ``.npy`` file; a
        ``.txt`` file with a text per line; a ``.tar`` of images (WebDataset, their
        classes as numbers in ``NAME.cls``); or what :func:`openset.datasets.load`
        reads: a ``.npz``, a ``.csv`` with text and label, the name of a data set.
    part, root
        Part of the data set, such as "test" (default: all), and the folder that has it.
    image_list
        Take only the images of this list (:mod:`openset.datasets.image_lists`), with
        its labels, which number the network's outputs.
    **how
        As in :meth:`Network.apply`.

    Examples
    --------
    >>> from openset import extract
    >>> extract.run("runs/openauc", "svhn", part="test")  # doctest: +SKIP
    """
    opened = network if isinstance(network, Network) else load(network)
    path = Path(data)
    with tempfile.TemporaryDirectory(prefix="openset-") as folder:
        if image_list is not None:
            found = _listed(image_list, data, opened)
        elif path.suffix == ".tar":
            found = _unpacked(path, Path(folder), opened)
        else:
            found = _unlabelled(path) or _of_data_set(data, part, root, opened)
        if part and ("labels" not in found or image_list is not None):
            _check.fail(_CALLER, "part", "left out for data without parts", repr(part))
        found = {"ids": _names_of(found["inputs"], path), **found}
        try:
            return opened.apply(**found, **how)
        except (DamagedImageError, InvalidSamplesError) as error:
            error.add_note("to keep such samples as rows of NaN: invalid='keep'")
            raise


def _listed(
    given: ImageList | str | Path, folder: str | Path, network: Network
) -> dict[str, Any]:
    found = given if isinstance(given, ImageList) else image_lists.read(given)
    names = dict(enumerate(network.classes)) | {UNKNOWN: Path(found.name).stem}
    groups = [names.get(one, str(one)) for one in found.labels.tolist()]
    return {"inputs": found.files(folder), "labels": found.labels, "groups": groups}


def _unlabelled(path: Path) -> dict[str, Any]:
    """Return unlabelled samples; none if the data have labels."""
    if path.suffix == ".npy":
        with _io.naming(path):
            return {"inputs": np.load(path, allow_pickle=False)}
    if path.suffix == ".txt":
        lines = path.read_text("utf-8").splitlines()
        return {"inputs": [one for one in lines if one.strip()], "groups": path.stem}
    files = path.is_dir() and [p for p in image_paths(path) if Path(p).parent == path]
    if not files:
        return {}
    if folders := [
        one for one in path.iterdir() if one.is_dir() and one.name[0] != "."
    ]:
        rule = "a folder of images, or a folder with one folder per class"
        got = f"{path} with both ({Path(files[0]).name}, {folders[0].name}/)"
        _check.fail(_CALLER, "data", rule, got)
    return {"inputs": ImageFiles(tuple(files)), "groups": path.resolve().name}


def _of_data_set(
    data: str | Path, part: str, root: str | Path | None, network: Network
) -> dict[str, Any]:
    loaded = datasets.load(str(data), root)
    if part:
        _check.one_of(_CALLER, "part", part, sorted(loaded.parts))
    rows = loaded.parts[part] if part else np.arange(len(loaded.labels))
    known = network.classes
    if network.embeds and not known:
        occurring = set(loaded.labels[rows].tolist())
        known = tuple(c for i, c in enumerate(loaded.classes) if i in occurring)
    # macOS stores ü in file names as two characters: compare composed names.
    number = {normalize("NFC", name): i for i, name in enumerate(known)}
    found = [number.get(normalize("NFC", name), UNKNOWN) for name in loaded.classes]
    # The last entry is for samples without a class, labelled -1.
    return {
        "inputs": lazy_inputs.take(loaded.inputs, rows),
        "labels": np.array([*found, UNKNOWN])[loaded.labels[rows]],
        "groups": np.array([*loaded.classes, loaded.unlisted])[loaded.labels[rows]],
        "classes": known,
    }


def _names_of(inputs: Any, folder: Path) -> list[str] | None:
    """Return the beginnings of texts, or the names of files."""
    if isinstance(inputs, ImageFiles):
        paths, root = [Path(one).resolve() for one in inputs.paths], folder.resolve()
        inside = (p.relative_to(root) if p.is_relative_to(root) else p for p in paths)
        return [one.as_posix() for one in inside]
    if len(inputs) and isinstance(inputs[0], str):
        # Short: NumPy stores all of them as long as the longest.
        return [textwrap.shorten(text, _LONGEST, placeholder=" …") for text in inputs]
    return None


def _unpacked(path: Path, folder: Path, network: Network) -> dict[str, Any]:
    """Unpack the images of a WebDataset, which are named by what stands before the dot.

    Images stay in the folder until their batch is read: memory does not grow.
    """
    try:
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
            members = [PurePosixPath(one.name) for one in tar if one.isfile()]
            # Zeros, and nothing else, must follow the members: tarfile takes a header
            # that is cut off or damaged for the end of the archive.
            file: Any = tar.fileobj
            file.seek(tar.offset)
            rest = iter(lambda: file.read(tarfile.RECORDSIZE), b"")
            if any(next(rest, b"nothing")) or any(map(any, rest)):
                msg = f"cut off or damaged after {len(members)} files"
                raise tarfile.ReadError(msg)
    except (tarfile.TarError, EOFError) as error:
        msg = f"{_CALLER}: {path} is damaged or not a WebDataset ({error})"
        raise ArtefactError(msg) from error
    names = [one for one in members if is_image(one)]
    keys = [one.with_name(one.name.partition(".")[0] + ".cls") for one in names]
    labelled = {*keys} & {*members}
    if not names or len({*keys}) < len(keys) or len(labelled) not in {0, len(keys)}:
        rule = "a .tar file of images, one per sample, with a .cls for all or none"
        got = f"{len(names)} images of {len({*keys})} samples, {len(labelled)} .cls"
        _check.fail(_CALLER, str(path), rule, got)
    files = tuple(str(folder / one) for one in names)
    inputs = ImageFiles(files, names=tuple(f"{one} of {path}" for one in names))
    found = {"inputs": inputs, "ids": [one.as_posix() for one in names]}
    if labelled:
        labels = np.array([int((folder / one).read_text()) for one in keys])
        labels[labels >= len(network.classes)] = UNKNOWN
        found["labels"] = labels
    return found
