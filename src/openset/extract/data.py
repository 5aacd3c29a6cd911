"""Outputs of a network for data by name: folders, lists, texts, arrays, archives."""

import tarfile
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

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


class Samples(NamedTuple):
    """Inputs, labels that index the known classes, and where they come from."""

    inputs: Any
    labels: NDArray[np.int64] | None = None
    groups: Any = None
    ids: list[str] | None = None
    classes: tuple[str, ...] = ()


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
    check_data(str(data))
    opened = network if isinstance(network, Network) else load(network)
    path = Path(data)
    with tempfile.TemporaryDirectory(prefix="openset-") as folder:
        if image_list is not None:
            found = _listed(image_list, data, opened)
        elif path.suffix == ".tar":
            found = _unpacked(path, Path(folder), opened)
        else:
            found = _unlabelled(path) or _of_data_set(data, part, root, opened)
        if part and (found.labels is None or image_list is not None):
            _check.fail(_CALLER, "part", "left out for data without parts", repr(part))
        if opened.embeds and not opened.classes:
            opened = replace(opened, classes=found.classes)
        ids = found.ids or _names_of(found.inputs, path)
        about = {"labels": found.labels, "groups": found.groups, "ids": ids}
        try:
            return opened.apply(found.inputs, **about, **how)
        except (DamagedImageError, InvalidSamplesError) as error:
            rows = getattr(error, "rows", ())
            name = f"{ids[rows[0]]}: " if ids is not None and rows else ""
            remedy = "to keep such samples as rows of NaN, use invalid='keep'"
            error.add_note(f"{name}{remedy} (--invalid keep)")
            raise


def check_data(data: str) -> None:
    """Refuse a path that leads nowhere before a network is loaded or downloaded."""
    if not (datasets.is_name(data) or Path(data).exists()):
        remedy = _check.near(data, datasets.names())
        remedy = remedy or "openset datasets lists the names of data sets"
        rule = "a file, a folder or the name of a data set"
        got = f"{data}, and there is no such file or folder"
        _check.fail(_CALLER, "data", rule, got, remedy, FileNotFoundError)


def _listed(
    given: ImageList | str | Path, folder: str | Path, network: Network
) -> Samples:
    found = given if isinstance(given, ImageList) else image_lists.read(given)
    classes = network.classes
    if network.embeds and not classes:
        classes = tuple(map(str, range(found.labels.max() + 1)))
    names = dict(enumerate(classes)) | {UNKNOWN: Path(found.name).stem}
    groups = np.array([names.get(one, str(one)) for one in found.labels.tolist()])
    return Samples(found.files(folder), found.labels, groups, classes=classes)


def _unlabelled(path: Path) -> Samples | None:
    """Return unlabelled samples; None if the data have labels."""
    if path.suffix == ".npy":
        with _io.naming(path):
            return Samples(np.load(path, allow_pickle=False))
    if path.suffix == ".txt":
        lines = path.read_text("utf-8").splitlines()
        return Samples([one for one in lines if one.strip()], groups=path.stem)
    files = path.is_dir() and [p for p in image_paths(path) if Path(p).parent == path]
    if not files:
        return None
    folders = [
        one.name for one in path.iterdir() if one.is_dir() and one.name[0] != "."
    ]
    if folders:
        rule = "a folder of images, or a folder with one folder per class"
        got = f"{path} with both ({Path(files[0]).name}, {folders[0]}/)"
        remedy = "Images outside the class folders would be ignored"
        _check.fail(_CALLER, "data", rule, got, remedy)
    return Samples(ImageFiles(tuple(files)), groups=path.resolve().name)


def _of_data_set(
    data: str | Path, part: str, root: str | Path | None, network: Network
) -> Samples:
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
    labels = np.array([*found, UNKNOWN])[loaded.labels[rows]]
    groups = np.array([*loaded.classes, loaded.unlisted])[loaded.labels[rows]]
    return Samples(lazy_inputs.take(loaded.inputs, rows), labels, groups, classes=known)


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


def _unpacked(path: Path, folder: Path, network: Network) -> Samples:
    """Unpack the images of a WebDataset, which are named by what stands before the dot.

    Images stay in the folder until their batch is read: memory does not grow.
    """
    try:
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
            members = [PurePosixPath(one.name) for one in tar if one.isfile()]
            _need_end(tar)
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
    labels = None
    if labelled:
        labels = np.array([int((folder / one).read_text()) for one in keys])
        labels[labels >= len(network.classes)] = UNKNOWN
    return Samples(inputs, labels, ids=[one.as_posix() for one in names])


def _need_end(tar: tarfile.TarFile) -> None:
    """Raise unless zeros, and nothing else, follow the members.

    tarfile takes a header that is cut off or damaged for the end of the archive.
    """
    file: Any = tar.fileobj
    file.seek(tar.offset)
    block = file.read(tarfile.BLOCKSIZE)
    is_whole = len(block) == tarfile.BLOCKSIZE
    while block and not any(block):
        block = file.read(tarfile.RECORDSIZE)
    if block or not is_whole:
        msg = f"cut off or damaged after {len(tar.getmembers())} members"
        raise tarfile.ReadError(msg)
