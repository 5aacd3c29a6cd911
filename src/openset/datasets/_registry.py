"""All data sets by name, through one door."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openset import _check
from openset.datasets import (
    _binary,
    _folders,
    _inputs,
    _packaged,
    _tables,
    _text,
)
from openset.datasets._arrays import from_npz
from openset.datasets._dataset import Dataset
from openset.datasets._fetch import File, is_offline
from openset.datasets._hub import from_hub
from openset.datasets._packaged import Packaged
from openset.datasets._place import Place, default_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is known of a data set before it is read."""

    name: str
    kind: str
    n_classes: int
    about: str
    read: Callable[[Place], Dataset] | None = None
    files: tuple[File, ...] = ()
    marker: str = ""
    packaged: Packaged | None = None

    def is_here(self, place: Place) -> bool:
        """Tell whether the official files, or the unpacked folder, are there."""
        if self.marker:
            if (place.folder / self.marker).exists():
                return True
            if not self.files:
                return False
            if place.find(self.marker) is not None:
                return True
        return bool(self.files) and all(place.find(f.name) for f in self.files)


def _pack(name: str, sha256: str, read: Callable[[str, Path], Dataset]) -> Packaged:
    return Packaged(File(name, f"sha256:{sha256}"), read)


_TABULAR = _pack(
    "tabular.npz.xz",
    "8290b1c7405f08e1f98bda18e2d8ca374454a8911c88da89f6191fdbaea93ddc",
    _tables.packaged_table,
)
_OMNIGLOT = "136e85bb70e43e09ddb0bc084f031ef131baa3921ea20d32fe40ae563feb9e19"

_SOURCES = (
    Source(
        name="digits",
        kind="table",
        n_classes=10,
        about="8 x 8 digits of scikit-learn; always there",
        read=_tables.digits,
    ),
    Source(
        name="mnist",
        kind="image",
        n_classes=10,
        about="handwritten digits, 28 x 28 grey",
        read=_binary.mnist,
        files=_binary.MNIST,
        packaged=_pack(
            "mnist.npz.xz",
            "00e207057d9f6afc7faf2dc85adebac1abe3cc1d46694a4914dd93588b963744",
            _packaged.mnist,
        ),
    ),
    Source(
        name="notmnist",
        kind="image",
        n_classes=10,
        about="letters A to J in many fonts, 28 x 28 grey; test part only",
        packaged=_pack(
            "notmnist_test.npz.xz",
            "dc340e00c76035b77a3dee8c621551068a872a5ea97aedd5376a2f61538892ed",
            _packaged.notmnist,
        ),
    ),
    Source(
        name="omniglot",
        kind="image",
        n_classes=1623,
        about="characters of 50 alphabets, 105 x 105; test classes differ from train",
        read=_folders.omniglot,
        files=_folders.OMNIGLOT,
        marker="images_background",
        packaged=_pack("omniglot.npz.xz", _OMNIGLOT, _packaged.omniglot),
    ),
    Source(
        name="omniglot28",
        kind="image",
        n_classes=1623,
        about="Omniglot at the size of MNIST, 28 x 28",
        packaged=_pack("omniglot.npz.xz", _OMNIGLOT, _packaged.omniglot28),
    ),
    Source(
        name="svhn",
        kind="image",
        n_classes=10,
        about="house-number digits, 32 x 32 RGB, without the extra part",
        read=_binary.svhn,
        files=_binary.SVHN,
        packaged=_pack(
            "svhn_webp.npz",
            "217cd90c6f86dfec69462bbcfcb28612bf1a837a795d851455cfc2aa95bbcef2",
            _packaged.svhn,
        ),
    ),
    Source(
        name="cifar10",
        kind="image",
        n_classes=10,
        about="objects and animals, 32 x 32 RGB",
        read=_binary.cifar10,
        files=_binary.CIFAR10,
        packaged=_pack(
            "cifar10_webp.npz",
            "2768b962551277afaa2148b7ee51bdcdfbcb6b4858859b324ddeb875c3bbdbc3",
            _packaged.cifar10,
        ),
    ),
    Source(
        name="cifar100",
        kind="image",
        n_classes=100,
        about="objects and animals with fine labels, 32 x 32 RGB",
        read=_binary.cifar100,
        files=_binary.CIFAR100,
    ),
    Source(
        name="tinyimagenet",
        kind="image",
        n_classes=200,
        about="ImageNet at 64 x 64; the official validation images are the test part",
        read=_folders.tinyimagenet,
        files=_folders.TINYIMAGENET,
        marker="tiny-imagenet-200",
    ),
    Source(
        name="tinyimagenet32_val",
        kind="image",
        n_classes=200,
        about="validation images of TinyImageNet at 32 x 32; test part only",
        packaged=_pack(
            "tinyimagenet32_val_webp.npz",
            "653d60b117efc7e63d555769e8902c31ab906a0f7c6ab4f6c4280063076a6788",
            _packaged.tinyimagenet,
        ),
    ),
    Source(
        name="cub",
        kind="image",
        n_classes=200,
        about="bird species (CUB-200-2011)",
        read=_folders.cub,
        files=_folders.CUB,
        marker="CUB_200_2011",
    ),
    Source(
        name="fgvc-aircraft",
        kind="image",
        n_classes=100,
        about="aircraft variants; trainval is the training part",
        read=_folders.aircraft,
        files=_folders.AIRCRAFT,
        marker="fgvc-aircraft-2013b",
    ),
    Source(
        name="stanford-cars",
        kind="image",
        n_classes=196,
        about="car models; files to be brought along",
        read=_folders.cars,
        files=_folders.CARS,
        marker="cars_train",
    ),
    Source(
        name="dtd",
        kind="image",
        n_classes=47,
        about="describable textures, first official partition",
        read=_folders.dtd,
        files=_folders.DTD,
        marker="dtd",
    ),
    Source(
        name="places365",
        kind="image",
        n_classes=365,
        about="scenes; the 36,500 validation images as test part",
        read=_folders.places365,
        files=_folders.PLACES365,
        marker="val_256",
    ),
    Source(
        name="sun397",
        kind="image",
        n_classes=397,
        about="scenes, all images, no parts",
        read=_folders.sun397,
        files=_folders.SUN397,
        marker="SUN397",
    ),
    Source(
        name="imagenet",
        kind="image",
        n_classes=1000,
        about="ILSVRC2012 from folders per WordNet id; to be brought along",
        read=_folders.imagenet,
        marker="val",
    ),
    Source(
        name="imagenette",
        kind="image",
        n_classes=10,
        about="ten easy ImageNet classes, full size",
        read=_folders.imagenette,
        files=_folders.IMAGENETTE,
        marker="imagenette2",
    ),
    Source(
        name="clinc150",
        kind="text",
        n_classes=150,
        about="intents, with out-of-scope texts ('oos')",
        read=_text.clinc150,
        marker=_text.CLINC150,
        packaged=_pack(
            "clinc150.json.xz",
            "7be39b5d1dcfeebb2e7d6ce9fd96da4b7a7f4e2d68a6662433989d922cccbbb4",
            _text.packaged_clinc150,
        ),
    ),
    Source(
        name="banking77",
        kind="text",
        n_classes=77,
        about="banking intents",
        read=_text.banking77,
        marker=_text.BANKING77[0],
        packaged=_pack(
            "banking77.json.xz",
            "d03cf84d32c813096e0f40869e82c78d84db2f921b829b817913c91706c7d139",
            _text.packaged_banking77,
        ),
    ),
    *(
        Source(
            name=name, kind="table", n_classes=n_classes, about=about, packaged=_TABULAR
        )
        for name, n_classes, about in (
            ("letter", 26, "UCI letter recognition, 20,000 x 16"),
            ("penbased", 10, "pen strokes of digits, 10,992 x 16"),
            ("optdigits", 10, "scanned digits, 5,620 x 64"),
            ("satimage", 6, "soil types from a satellite, 6,435 x 36"),
            ("texture", 11, "textures, 5,500 x 40"),
            ("vowel", 11, "spoken vowels, 990 x 10"),
            ("segment", 7, "outdoor image regions, 2,310 x 19"),
        )
    ),
)
REGISTRY: dict[str, Source] = {source.name: source for source in _SOURCES}


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
        if source.name == "digits" or is_packed or source.is_here(place):
            found.append(source.name)
    return found


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
        One of :func:`names`; ``hf:owner/name`` for one of the Hugging Face hub (extra
        ``hub``); or the path of a ``.npz`` file or a folder of images.
    root
        Folder of the files; left out, ``$OPENSET_DATA``, else the user's cache. Files
        lie in ``<root>/<name>/`` or in ``<root>/``. What is missing is downloaded, if
        its publisher allows; an interrupted download continues where it stopped.
    offline
        Never download; left out, ``OPENSET_OFFLINE=1`` in the environment decides.
    verify
        Compare official and packaged files with their checksums.
    options
        ``inputs=`` and ``labels=`` name the columns of a hub data set.

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
    is_hub = isinstance(name, str) and name.startswith("hf:")
    if options and not (is_hub and set(options) <= {"inputs", "labels"}):
        msg = f"{caller}: no option {', '.join(sorted(options))} for {name!r}"
        raise TypeError(msg)
    no_downloads = is_offline(offline=offline)
    if is_hub:
        return from_hub(str(name)[3:], offline=no_downloads, **options)
    if name not in REGISTRY:
        return _from_path(caller, Path(name))
    source = REGISTRY[str(name)]
    base = default_root() if root is None else Path(root)
    place = Place(source.name, base, offline=no_downloads, verify=verify)
    return _read(source, place)


def _read(source: Source, place: Place) -> Dataset:
    packed = source.packaged
    if packed is not None and (source.read is None or not source.is_here(place)):
        has_packed = place.find(packed.file.name) is not None
        if has_packed or source.read is None:
            return packed.read(source.name, _packaged.place_file(place, packed))
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
        f"one of {', '.join(map(repr, names()))}, 'hf:owner/name', or the path of a "
        ".npz file or a folder of images",
        caller=caller,
        name="name",
        got=repr(str(path)),
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
