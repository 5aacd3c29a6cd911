"""Outputs of a network for data by name: folders, lists, texts, arrays, archives."""

import shutil
import tarfile
import tempfile
import textwrap
from contextlib import ExitStack
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
    with ExitStack() as stack:
        if image_list is not None:
            found = _listed(image_list, data, opened)
        elif Path(data).suffix == ".tar":
            folder = tempfile.TemporaryDirectory(prefix="openset-tar-")
            found = unpacked(Path(data), Path(stack.enter_context(folder)))
            if found.labels is not None:
                n = len(opened.classes)
                is_known = (found.labels >= 0) & (found.labels < n)
                labels = np.where(is_known, found.labels, UNKNOWN)
                found = found._replace(labels=labels)
        else:
            found = _unlabelled(Path(data)) or _of_data_set(data, part, root, opened)
        if part and (found.labels is None or image_list is not None):
            _check.fail(_CALLER, "part", "left out for data without parts", repr(part))
        if opened.embeds and not opened.classes:
            opened = replace(opened, classes=found.classes)
        ids = sample_names(found.inputs, Path(data)) if found.ids is None else found.ids
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
    if datasets.is_name(data) or Path(data).exists():
        return
    remedy = ""
    if not (set("/\\:") & set(data) or Path(data).suffix):
        names = "openset datasets lists the names of data sets"
        remedy = _check.near(data, datasets.names()) or names
    rule = "a file, a folder or the name of a data set"
    got = f"{data}, and there is no such file or folder"
    _check.fail(_CALLER, "data", rule, got, remedy, FileNotFoundError)


def _listed(
    given: ImageList | str | Path, folder: str | Path, network: Network
) -> Samples:
    found = given if isinstance(given, ImageList) else image_lists.read(given)
    labels = found.labels.tolist()
    classes = network.classes
    if network.embeds and not classes:
        classes = tuple(map(str, range(max(labels) + 1)))
    names = dict(enumerate(classes)) | {UNKNOWN: Path(found.name).stem}
    groups = np.array([names.get(one, str(one)) for one in labels])
    return Samples(found.files(folder), found.labels, groups, classes=classes)


def _unlabelled(path: Path) -> Samples | None:
    """Return unlabelled samples; None if the data have labels."""
    if path.suffix == ".npy":
        with _io.naming(path):
            return Samples(np.load(path, allow_pickle=False))
    if path.suffix == ".txt":
        lines = path.read_text("utf-8").splitlines()
        return Samples([one for one in lines if one.strip()], groups=path.stem)
    if not path.is_dir():
        return None
    files = [one for one in image_paths(path) if Path(one).parent == path]
    folders = [one for one in path.iterdir() if one.is_dir() and one.name[0] != "."]
    if files and folders:
        rule = "a folder of images, or a folder with one folder per class"
        got = f"{path} with both ({Path(files[0]).name}, {folders[0].name}/)"
        remedy = "Images outside the class folders would be ignored"
        _check.fail(_CALLER, "data", rule, got, remedy)
    if not files:
        return None
    return Samples(ImageFiles(tuple(files)), groups=path.resolve().name)


def _of_data_set(
    data: str | Path, part: str, root: str | Path | None, network: Network
) -> Samples:
    loaded = datasets.load(str(data), root)
    if part and loaded.parts:
        _check.one_of(_CALLER, "part", part, sorted(loaded.parts))
    elif part:
        _check.fail(_CALLER, "part", "left out for data without parts", repr(part))
    rows = loaded.parts[part] if part else np.arange(len(loaded.labels))
    known = network.classes
    if network.embeds and not known:
        occurring = set(loaded.labels[rows].tolist())
        known = tuple(c for i, c in enumerate(loaded.classes) if i in occurring)
    # macOS stores ü in file names as two characters: compare composed names.
    number = {normalize("NFC", name): i for i, name in enumerate(known)}
    found = [number.get(normalize("NFC", name), UNKNOWN) for name in loaded.classes]
    # The last entry is for samples without a class, labelled -1.
    labels = np.array([*found, UNKNOWN])[loaded.labels]
    groups = np.array([*loaded.classes, loaded.unlisted])[loaded.labels]
    inputs = lazy_inputs.take(loaded.inputs, rows)
    return Samples(inputs, labels[rows], groups[rows], classes=known)


def sample_names(inputs: Any, folder: Path) -> list[str] | None:
    """Return the beginnings of texts, or file names.

    File names are relative to the folder, or absolute if outside of it.
    """
    if not isinstance(inputs, ImageFiles):
        if not (len(inputs) and isinstance(inputs[0], str)):
            return None
        # Short: NumPy stores all of them as long as the longest.
        return [textwrap.shorten(text, _LONGEST, placeholder=" …") for text in inputs]
    root = folder.resolve()
    paths = [Path(path).resolve() for path in inputs.paths]
    return [
        (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
        for path in paths
    ]


def unpacked(path: Path, folder: Path) -> Samples:
    """Unpack the images of a WebDataset, which are named by what stands before the dot.

    Images stay in the folder until their batch is read: memory does not grow.
    """
    images: dict[str, str] = {}
    numbers: dict[str, int] = {}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                key = str(name.parent / name.name.partition(".")[0])
                stream = tar.extractfile(member) if member.isfile() else None
                if stream is None:
                    continue
                if name.suffix == ".cls":
                    numbers[key] = int(stream.read())
                elif is_image(name):
                    if key in images:
                        names = f"{images[key]} and {member.name}"
                        msg = f"two images of one sample: {names}"
                        raise ValueError(msg)  # noqa: TRY301
                    target = folder / f"{len(images):08}{name.suffix.lower()}"
                    with target.open("wb") as copy:
                        shutil.copyfileobj(stream, copy)
                    images[key] = member.name
            _need_end(tar)
    except (tarfile.TarError, EOFError, ValueError) as error:
        msg = f"{_CALLER}: {path} is damaged or not a WebDataset ({error})"
        raise ArtefactError(msg) from error
    if not images:
        _check.fail(_CALLER, str(path), "a .tar file with images", "none")
    missing = images.keys() - numbers.keys()
    if numbers and missing:
        rule, got = "a .cls for every image, or for none", f"none for {min(missing)}"
        _check.fail(_CALLER, str(path), rule, got)
    labels = np.array([numbers[key] for key in images]) if numbers else None
    ids = list(images.values())
    files = tuple(str(one) for one in sorted(folder.iterdir()))
    shown = tuple(f"{one} of {path}" for one in ids)
    return Samples(ImageFiles(files, names=shown), labels, ids=ids)


def _need_end(tar: tarfile.TarFile) -> None:
    """Raise unless zeros, and nothing else, follow the members.

    tarfile takes a header that is cut off or damaged for the end of the archive.
    """
    file: Any = tar.fileobj
    file.seek(tar.offset)
    rest = file.read(tarfile.BLOCKSIZE)
    n = len(tar.getmembers())
    if len(rest) < tarfile.BLOCKSIZE:
        msg = f"cut off after {n} members"
        raise tarfile.ReadError(msg)
    while rest:
        if any(rest):
            msg = f"no member follows the {n} read, but other bytes"
            raise tarfile.ReadError(msg)
        rest = file.read(tarfile.RECORDSIZE)
