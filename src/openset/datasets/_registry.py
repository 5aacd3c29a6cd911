"""All data sets by name, through one door."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from openset import _check
from openset.datasets import _folders, _inputs
from openset.datasets._arrays import from_npz
from openset.datasets._dataset import Dataset
from openset.datasets._download import is_offline
from openset.datasets._hub import from_hub, is_saved
from openset.datasets._locations import Place, default_root
from openset.datasets._sources import REGISTRY, Source


def names() -> list[str]:
    """Return the names of all data sets :func:`load` knows."""
    return list(REGISTRY)


def available(root: str | Path | None = None) -> list[str]:
    """Return the names that :func:`load` can read from `root` without a download.

    Examples
    --------
    >>> available("no/such/folder")
    ['digits']
    """
    base = default_root() if root is None else Path(root)
    found = []
    for source in REGISTRY.values():
        place = Place(source.name, base, offline=True, verify=False)
        is_packed = source.packaged and place.find(source.packaged.file.name)
        is_copied = source.copy and source.copy.find(place)
        is_here = is_packed or is_copied or source.is_here(place)
        if source.name == "digits" or is_here:
            found.append(source.name)
    return found


def describe(name: str, root: str | Path | None = None) -> str:
    """Say what a data set is, which files it needs and where they belong.

    Examples
    --------
    >>> print(describe("digits"))
    digits: 8 x 8 digits of scikit-learn; always there
    1,797 samples of 10 classes (table)
    """
    _check.one_of("datasets.describe", "name", name, names())
    source = REGISTRY[name]
    place = Place(name, default_root() if root is None else Path(root))
    lines = [
        f"{name}: {source.about}",
        f"{source.n_samples:,} samples of {source.n_classes:,} classes ({source.kind})",
    ]
    if source.origin:
        lines.append(f"from {source.origin}")
    ways = {
        "official files:": [place.line(file) for file in source.files],
        "unpacked:": [f"  {place.folder / source.marker}"] if source.marker else [],
    }
    if source.copy is not None:
        folder = source.copy.find(place) or place.folder / "package"
        files = [f"  {folder / f.name}  ({f.digest})" for f in source.copy.files]
        ways[f"{source.copy.origin}:"] = files
    if source.packaged is not None:
        ways["one compact file:"] = [place.line(source.packaged.file)]
    given = [(way, files) for way, files in ways.items() if files]
    for i, (way, files) in enumerate(given):
        lines += ["or " * (i > 0) + way, *files]
    return "\n".join(lines)


def load(
    name: str,
    root: str | Path | None = None,
    *,
    offline: bool | None = None,
    verify: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name
        One of :func:`names`; ``hf:owner/name`` or ``hf:path`` for a Hugging Face data
        set (extra ``hub``, see :func:`from_hub`); or the path of a ``.npz`` file, a
        folder of images, or a folder that a Hugging Face data set was saved to.
    root
        Folder of the files; left out, ``$OPENSET_DATA``, else the user's cache. Files
        lie in ``<root>/<name>/`` or in ``<root>/``. What is missing is downloaded, if
        its publisher allows; an interrupted download continues where it stopped.
    offline
        Never download; left out, ``OPENSET_OFFLINE=1`` in the environment decides.
    verify
        Compare official and packaged files with their checksums.
    options
        ``inputs=``, ``labels=`` and ``config=`` of a Hugging Face data set.

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
    path = str(name)
    is_hub = path.startswith("hf:")
    if name not in REGISTRY and is_saved(Path(path)):
        path, is_hub = f"hf:{path}", True
    if options and not (is_hub and set(options) <= {"inputs", "labels", "config"}):
        msg = f"{caller}: no option {', '.join(sorted(options))} for {name!r}"
        raise TypeError(msg)
    no_downloads = is_offline(offline=offline)
    if is_hub:
        return from_hub(path[3:], offline=no_downloads, **options)
    if name not in REGISTRY:
        return _from_path(caller, Path(name))
    source = REGISTRY[str(name)]
    base = default_root() if root is None else Path(root)
    place = Place(source.name, base, offline=no_downloads, verify=verify)
    return _read(source, place)


def _read(source: Source, place: Place) -> Dataset:
    packed, copy = source.packaged, source.copy
    if copy is not None and not source.is_here(place) and copy.find(place) is not None:
        return copy.read(place)
    if packed is not None and (source.read is None or not source.is_here(place)):
        has_packed = place.find(packed.file.name) is not None
        if has_packed or source.read is None:
            (path,) = place.files(packed.file)
            return packed.read(source.name, path)
    if source.read is None:  # pragma: no cover  # the registry test forbids it
        msg = f"datasets: {source.name} has no reader"
        raise RuntimeError(msg)
    return source.read(place)


def _from_path(caller: str, path: Path) -> Dataset:
    if path.is_dir():
        return _folders.image_folder(path)
    if path.suffix == ".npz":
        return from_npz(path)
    msg = _check.must(
        f"one of {', '.join(map(repr, names()))}, 'hf:owner/name', 'hf:path', or the "
        "path of a .npz file or a folder of images",
        caller=caller,
        name="name",
        got=repr(str(path)),
        remedy=_check.near(str(path), names()),
    )
    raise ValueError(msg)


def resized(dataset: Dataset, side: int, *, channels: int = 3) -> Dataset:
    """Bring the images of a data set to one size, in memory.

    Data sets must agree in size before a protocol joins them: MNIST and Omniglot, say,
    at ``side=28, channels=1``.

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
    return replace(dataset, inputs=_inputs.resize(dataset.inputs, side, channels))
