"""Data sets by name, from a path, from the hub, or from another package."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from openset import _check
from openset._types import ArtefactError
from openset.datasets import lazy_inputs, own
from openset.datasets.catalogue import CATALOGUE, Info, Loader, external
from openset.datasets.dataset import Dataset
from openset.datasets.hugging_face import from_hub, is_saved
from openset.datasets.places import is_offline

_HUB = "hf:"
_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")  # package.module:function


def names() -> list[str]:
    """Return the names of all data sets: built in, registered, and installed."""
    return CATALOGUE.names()


def available(root: str | Path | None = None) -> list[str]:
    """Return the names that :func:`load` can read from `root` without a download.

    Data sets of other packages are always among them: only their loader knows what it
    needs.

    Examples
    --------
    >>> available("no/such/folder")[:3]
    ['digits', 'clinc150', 'banking77']
    """
    built_in = set(CATALOGUE.built_in())  # others are not imported for a list
    return [
        name
        for name in names()
        if name not in built_in or CATALOGUE[name].is_here(root)
    ]


def register(name: str, loader: Loader, **known: Any) -> None:
    """Register your own data set under a name, in this process.

    An installed package can do the same with an entry point of the group
    ``openset.datasets``. Without either, write ``package.module:function`` wherever a
    data set is named.

    Parameters
    ----------
    name
        Lower-case letters, digits, hyphens and underscores.
    loader
        A function of one argument, the folder of data sets, that returns a `Dataset`.
        Worker processes import it from its module.
    known
        What is known of it for lists of data sets: ``kind=`` ("image", "text" or
        "table"), ``n_classes=``, ``n_samples=``, ``about=`` (a few words; by default
        the first line of the loader's docstring) and ``upright=`` (whether its images
        keep their class when turned; the training recipe "openset" then also learns to
        predict rotations).

    Examples
    --------
    >>> from openset import datasets
    >>> def coins(root):
    ...     return datasets.from_arrays([[0.0], [1.0]], ["heads", "tails"])
    >>> datasets.register("coins", coins, kind="table")  # doctest: +SKIP
    >>> datasets.load("coins")  # doctest: +SKIP
    Dataset(coins, table, n=2, classes=2)
    """
    made = external("datasets.register", loader, name=name, **known)
    CATALOGUE.register(name, made)


def info(name: str) -> Info:
    """Return what is known of a data set before it is read.

    Examples
    --------
    >>> info("mnist").n_samples, info("mnist").how
    (70000, 'download')
    """
    return CATALOGUE.find(name, caller="datasets.info")


def describe(name: str, root: str | Path | None = None) -> str:
    """Return a text: what a data set is, which files it needs and where they belong.

    Examples
    --------
    >>> print(describe("vowel"))
    vowel: spoken vowels, 10 columns
    990 samples of 11 classes (table), always there
    from https://archive.ics.uci.edu/dataset/152
    """
    found = info(name)
    place = found.place(root)
    lines = [f"{name}: {found.about}" if found.about else name]
    size = [] if found.n_samples is None else [f"{found.n_samples:,} samples"]
    if size and found.n_classes is not None:
        size = [f"{size[0]} of {found.n_classes:,} classes ({found.kind})"]
    lines.append(", ".join([*size, found.how]))
    if found.source:
        lines.append(f"from {found.source}")
    if found.how in {"download", "by hand"}:
        lines += map(place.line, found.files)
        lines += [f"  {place.path / one}  (unpacked)" for one in found.folders[:1]]
        lines.append(f"  or {place.copy}  (written by Dataset.save)")
    return "\n".join(lines)


def is_name(text: str) -> bool:
    """Return whether :func:`load` reads a text as a name, not as a path.

    Examples
    --------
    >>> [is_name(text) for text in ("mnist", "hf:owner/name", "my.data:birds")]
    [True, True, True]
    >>> is_name("data/birds.npz")
    False
    """
    if text in CATALOGUE or text.startswith(_HUB):
        return True
    return bool(_IMPORT.fullmatch(text)) and not Path(text).exists()


def load(
    name: str | Path,
    root: str | Path | None = None,
    *,
    offline: bool | None = None,
    imports: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name
        One of :func:`names`; ``package.module:function``, a loader of your own (see
        :func:`register`); ``hf:owner/name`` or ``hf:path`` for a Hugging Face data set
        (extra ``hub``); or the path of a ``.npz`` file, a ``.csv`` file of texts (with
        the columns text and label, and perhaps part), a folder of images
        (``CLASS/image.jpg`` or ``PART/CLASS/image.jpg``), or a folder that a Hugging
        Face data set was saved to.
    root
        Folder of the files; by default ``$OPENSET_DATA``, else the user's cache. Files
        lie in ``<root>/<name>/`` or in ``<root>/``. Missing files are downloaded if
        their publisher allows it, and compared with their checksums. A file
        ``<root>/<name>.npz`` that :meth:`Dataset.save` wrote is read instead.
    offline
        Never download; by default ``OPENSET_OFFLINE=1`` in the environment decides.
    imports
        Whether ``package.module:function`` may be imported. False if the name comes
        from a file, such as that of a protocol: a file must not decide which code runs.
    options
        Of a Hugging Face data set: ``inputs=`` (the input column), ``labels=`` (the
        class column) and ``config=``.

    Raises
    ------
    FileNotFoundError
        A file is missing and may not be downloaded; says which file to put where.
    ArtefactError
        A file is damaged. Nothing is ever unpickled.

    Examples
    --------
    >>> load("digits")
    Dataset(digits, table, n=1797, classes=10, train=1258, test=539)
    """
    caller = "datasets.load"
    if not isinstance(name, str | Path):
        _check.fail(caller, "name", "a string", repr(name), error=TypeError)
    text = str(name)
    no_downloads = is_offline() if offline is None else offline
    if text.startswith(_HUB) or (text not in CATALOGUE and is_saved(Path(text))):
        return from_hub(text.removeprefix(_HUB), offline=no_downloads, **options)
    if options:
        got = f"{', '.join(sorted(options))} for {text!r}"
        _check.fail(caller, "options", "of hf:owner/name", got, error=TypeError)
    if not is_name(text):
        return _from_path(caller, Path(name))
    if not imports and text not in CATALOGUE:
        rule = "a registered or installed name where a file gives it"
        remedy = "Register the loader: datasets.register"
        _check.fail(caller, "name", rule, repr(text), remedy, ArtefactError)
    found = replace(CATALOGUE.find(text, caller=caller), name=text)
    return found.load(found.place(root, offline=no_downloads))


def _from_path(caller: str, path: Path) -> Dataset:
    if path.is_dir():
        return own.image_folder(path)
    if path.suffix == ".npz":
        return own.from_npz(path)
    if path.suffix in (".csv", ".tsv"):
        return own.from_csv(path)
    rule = (
        f"one of {', '.join(map(repr, names()))}, 'package.module:function', "
        "'hf:owner/name', or the path of a .npz or .csv file or a folder of images"
    )
    missing = "" if path.exists() else ", and there is no such file or folder"
    got, remedy = f"{str(path)!r}{missing}", _check.near(str(path), names())
    return _check.fail(caller, "name", rule, got, remedy)


def resized(dataset: Dataset, side: int, *, channels: int = 3) -> Dataset:
    """Resize the images of a data set to one size, in memory.

    Data sets must have images of the same size before a protocol joins them: MNIST and
    Omniglot, for example, with ``side=28, channels=1``.

    Parameters
    ----------
    dataset
        A data set of images.
    side
        Height and width; Lanczos resampling, the aspect ratio is not kept.
    channels
        1 for grey (n, side, side), 3 for RGB (n, side, side, 3).
    """
    if dataset.kind != "image":
        _check.fail("resized", "dataset", "of images", repr(dataset.kind))
    return replace(dataset, inputs=lazy_inputs.resize(dataset.inputs, side, channels))
