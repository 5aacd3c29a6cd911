"""Data sets by name, from a path, from the hub, or from another package."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from openset import _check
from openset._types import ArtefactError
from openset.datasets import _image_folders, lazy_inputs
from openset.datasets._arrays import from_npz
from openset.datasets._catalogue import CATALOGUE
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_folder import DatasetFolder, default_root
from openset.datasets._dataset_info import DatasetInfo, Loader, external
from openset.datasets._download import is_offline
from openset.datasets._hub import from_hub, is_saved
from openset.datasets._text import from_csv

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
    built_in = set(CATALOGUE.built_in())
    return [
        name
        for name in names()
        if name not in built_in or CATALOGUE[name].is_here(_place(name, root))
    ]


def register(
    name: str,
    loader: Loader,
    *,
    kind: str = "",
    n_classes: int | None = None,
    n_samples: int | None = None,
    about: str = "",
    upright: bool = False,
) -> None:
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
    kind, n_classes, n_samples
        "image", "text" or "table", and its size, for lists of data sets.
    about
        What it is, in a few words; by default the first line of the loader's docstring.
    upright
        Whether its images have an upright position and keep their class when turned;
        the training recipe "openset" then also learns to predict rotations.

    Examples
    --------
    >>> from openset import datasets
    >>> def coins(root):
    ...     return datasets.from_arrays([[0.0], [1.0]], ["heads", "tails"])
    >>> datasets.register("coins", coins, kind="table")  # doctest: +SKIP
    >>> datasets.load("coins")  # doctest: +SKIP
    Dataset(coins, table, n=2, classes=2)
    """
    caller = "datasets.register"
    if not callable(loader) or isinstance(loader, Dataset):
        rule, got = "a function (root) -> Dataset", type(loader).__name__
        raise TypeError(_check.must(rule, caller=caller, name="loader", got=got))
    if kind:
        _check.one_of(caller, "kind", kind, lazy_inputs.KINDS)
    known = {
        "kind": kind,
        "n_classes": n_classes,
        "n_samples": n_samples,
        "upright": _check.boolean(caller, "upright", upright),
    }
    CATALOGUE.register(name, external(loader, name=name, about=about, **known))


def info(name: str) -> DatasetInfo:
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
    >>> print(describe("digits"))
    digits: 8 x 8 digits of scikit-learn; always there
    1,797 samples of 10 classes (table)
    """
    found = CATALOGUE.find(name, caller="datasets.describe")
    lines = [f"{name}: {found.about}" if found.about else name]
    if found.n_samples is not None and found.n_classes is not None:
        size = f"{found.n_samples:,} samples of {found.n_classes:,} classes"
        lines.append(f"{size} ({found.kind})" if found.kind else size)
    return "\n".join([*lines, *found.files_text(_place(name, root))])


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
    name: str,
    root: str | Path | None = None,
    *,
    offline: bool | None = None,
    verify: bool = True,
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
        their publisher allows it; an interrupted download continues where it stopped.
    offline
        Never download; by default ``OPENSET_OFFLINE=1`` in the environment decides.
    verify
        Compare the files of built-in data sets with their checksums.
    imports
        Whether ``package.module:function`` may be imported. False if the name comes
        from a file, such as that of a protocol: a file must not decide which code runs.
    options
        Of a Hugging Face data set: ``inputs=`` (the input column, or several columns of
        numbers), ``labels=`` (the class column) and ``config=``.

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
        got = repr(name)
        raise TypeError(_check.must("a string", caller=caller, name="name", got=got))
    text = str(name)
    if text not in CATALOGUE and is_saved(Path(text)):
        text = f"{_HUB}{text}"
    is_hub = text.startswith(_HUB)
    if options and not (is_hub and set(options) <= {"inputs", "labels", "config"}):
        msg = f"{caller}: no option {', '.join(sorted(options))} for {text!r}"
        raise TypeError(msg)
    no_downloads = is_offline(offline=offline)
    if is_hub:
        return from_hub(text.removeprefix(_HUB), offline=no_downloads, **options)
    if not is_name(text):
        return _from_path(caller, Path(name))
    if not imports and text not in CATALOGUE:
        msg = _check.must(
            "a registered or installed name where a protocol or another file gives it",
            caller=caller,
            name="name",
            got=repr(text),
            remedy="Register the loader (datasets.register), or load the data set "
            "yourself and pass it to datasets.cut",
        )
        raise ArtefactError(msg)
    found = CATALOGUE.find(text, caller=caller)
    return found.load(_place(text, root, offline=no_downloads, verify=verify))


def _place(name: str, root: str | Path | None, **options: bool) -> DatasetFolder:
    return DatasetFolder(
        name, default_root() if root is None else Path(root), **options
    )


def _from_path(caller: str, path: Path) -> Dataset:
    if path.is_dir():
        return _image_folders.image_folder(path)
    if path.suffix == ".npz":
        return from_npz(path)
    if path.suffix in (".csv", ".tsv"):
        return from_csv(path)
    msg = _check.must(
        f"one of {', '.join(map(repr, names()))}, 'package.module:function', "
        "'hf:owner/name', 'hf:path', or the path of a .npz file, a .csv file of texts "
        "or a folder of images",
        caller=caller,
        name="name",
        got=repr(str(path))
        + ("" if path.exists() else ", and there is no such file or folder"),
        remedy=_check.near(str(path), names()),
    )
    raise ValueError(msg)


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
        got = repr(dataset.kind)
        raise ValueError(
            _check.must("of images", caller="resized", name="dataset", got=got)
        )
    return replace(dataset, inputs=lazy_inputs.resize(dataset.inputs, side, channels))
