"""Published splits of the literature, shipped with the package."""

import json
import lzma
from functools import cache
from importlib.resources import files
from typing import Any

from openset import _check
from openset.protocols.classes import Class
from openset.protocols.protocol import Protocol

_IMAGENET = {"imagenet-21k-p": "fall11", "imagenet-21k-p-winter21": "winter21"}
_PALECHOR = "imagenet-protocols"


def names() -> list[str]:
    """Return the names of all published splits."""
    data = _data()
    return [*data["small_scale"], *data["fine_grained_ssb"], *_IMAGENET, _PALECHOR]


def splits(name: str) -> tuple[Class, ...]:
    """Return the splits published under `name`: numbers, or levels of difficulty.

    Examples
    --------
    >>> splits("cifar10"), splits("cub")
    ((0, 1, 2, 3, 4), ('Easy', 'Medium', 'Hard'))
    """
    _check.one_of("protocols.splits", "name", name, names())
    data = _data()
    if name in data["small_scale"]:
        return tuple(range(len(data["small_scale"][name]["splits"])))
    if name in data["fine_grained_ssb"]:
        return tuple(data["fine_grained_ssb"][name]["unknown"])
    if name == _PALECHOR:
        return tuple(data["imagenet_protocols"])
    return ("Easy", "Hard")


def published(name: str, split: Class = 0) -> Protocol:
    """Return a published protocol.

    Parameters
    ----------
    name
        One of :func:`names`.
    split
        0 to 4 for the small sets; "Easy", "Medium" or "Hard" for the fine-grained ones;
        "Easy" or "Hard" for ImageNet-21K-P; "P1", "P2" or "P3" for the ImageNet
        protocols. Upper and lower case are the same.

    Notes
    -----
    Class numbers are those of the official labels (MNIST, SVHN, CIFAR), the rank of the
    WordNet folder name (TinyImageNet), the official id minus one (CUB, Stanford Cars)
    or the rank of the variant name (FGVC-Aircraft); ImageNet classes are WordNet ids.

    The five splits are not always five problems: SVHN 0 and 1 have the same known
    classes, and so have CIFAR-10 0 and 1; CIFAR+10 and CIFAR+50 splits 1 and 2 share
    their known classes. `Draws.duplicates` finds such repeats.

    References
    ----------
    Small sets: as released with ARPL, CE+ and OpenAUC (identical lists). CUB,
    FGVC-Aircraft, Stanford Cars, ImageNet-21K-P: Semantic Shift Benchmark (Vaze et al.,
    Open-set recognition: a good closed-set classifier is all you need, ICLR 2022).
    ImageNet protocols: Palechor et al., Large-scale open-set classification protocols
    for ImageNet, WACV 2023 (version 2 of the lists).

    Examples
    --------
    >>> published("cifar10", 0).known
    (0, 6, 4, 9, 1, 7)
    >>> published("cub", "Hard")
    Protocol(cub/Hard, known=100, unknown=34, unused=66, openness=0.075, ...)
    """
    caller = "published"
    _check.one_of(caller, "name", name, names())
    split = _split(caller, name, split)
    data = _data()
    if name in data["small_scale"]:
        parts = _small(name, data["small_scale"][name], split)
    elif name in data["fine_grained_ssb"]:
        entry = data["fine_grained_ssb"][name]
        parts = {
            "known": entry["known"],
            "unknown": entry["unknown"][split],
            "source": name,
            "classes": range(entry["num_classes_total"]),
        }
    elif name == _PALECHOR:
        parts = {**data["imagenet_protocols"][split], "source": "imagenet"}
    else:
        entry = data["imagenet_ssb"][_IMAGENET[name]]
        parts = {
            # The Winter-21 file lists no known classes; its "closest" classes are all
            # among the 991 of Fall-11.
            "known": data["imagenet_ssb"]["fall11"]["known_imagenet1k_wnids"],
            "unknown": entry[f"unknown_{str(split).lower()}"],
            "source": "imagenet",
            "unknown_source": "imagenet-21k-p",
        }
    return Protocol(**parts, name=f"{name}/{split}")


def _split(caller: str, name: str, split: Any) -> Class:
    # "0" from a command line and "easy" in lower case are fine.
    options = {str(option).lower(): option for option in splits(name)}
    key = str(split).lower()
    if isinstance(split, bool) or key not in options:
        rule = "one of " + ", ".join(map(repr, options.values()))
        _check.fail(caller, f"split of {name!r}", rule, repr(split))
    return options[key]


def _small(name: str, entry: dict[str, Any], split: Class) -> dict[str, Any]:
    parts = dict(entry["splits"][split])
    parts["source"] = entry.get("known_source", name)
    if entry["unknown_source"] != parts["source"]:
        parts["unknown_source"] = entry["unknown_source"]
    total = entry.get("num_classes_total", 10)  # CIFAR+N: the knowns are of CIFAR-10
    return parts | {"classes": range(total)}


@cache
def _data() -> dict[str, Any]:
    packed = files("openset.protocols").joinpath("splits.json.xz").read_bytes()
    return json.loads(lzma.decompress(packed))
