"""Published splits of the literature, shipped with the package."""

import hashlib
import json
import lzma
from functools import cache
from importlib.resources import files
from typing import Any

from openset import _check
from openset._types import ArtefactError
from openset.protocols._protocol import Protocol
from openset.protocols.classes import Class

_FILE = "splits.json.xz"
# Of the decompressed text: a damaged file must not change the splits.
_SHA256 = "1c6c96cf9e46fcf959ea8014af45787f39d4509ecf5daae4ea3edbe83c69191f"

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


def similar(name: str, split: Class) -> tuple[tuple[tuple[Class, ...], ...], ...]:
    """Return the known classes published as most similar to unknown ones.

    Returns (known classes, unknown classes) pairs; empty where none were published.

    Examples
    --------
    >>> similar("cub", "Easy")[0]
    ((56,), (20,))
    >>> similar("fgvc-aircraft", "Medium")[1]
    ((37, 38, 39), (82,))
    """
    caller = "similar"
    _check.one_of(caller, "name", name, names())
    split = _split(caller, name, split)
    data = _data()
    if name in data["fine_grained_ssb"]:
        found = data["fine_grained_ssb"][name].get("known_unknown_pairs", {})
        return tuple(
            (_tuple(known), _tuple(unknown)) for known, unknown in found.get(split, [])
        )
    entry = data["imagenet_ssb"].get(_IMAGENET.get(name, ""), {})
    level = str(split).lower()
    closest = entry.get(f"closest_imagenet1k_for_{level}", [])
    unknown = entry.get(f"unknown_{level}", []) if closest else []
    return tuple(((k,), (u,)) for k, u in zip(closest, unknown, strict=True))


def candidates() -> tuple[str, ...]:
    """Return the 10,230 ImageNet-21K-P classes Easy and Hard were chosen from."""
    return tuple(_data()["imagenet_ssb"]["fall11"]["candidate_pool_imagenet21kp_wnids"])


def _split(caller: str, name: str, split: Any) -> Class:
    # "0" from a command line and "easy" in lower case are fine.
    options = {str(option).lower(): option for option in splits(name)}
    key = str(split).lower()
    if isinstance(split, bool) or key not in options:
        rule = "one of " + ", ".join(repr(option) for option in options.values())
        raise ValueError(
            _check.must(rule, caller=caller, name=f"split of {name!r}", got=repr(split))
        )
    return options[key]


def _small(name: str, entry: dict[str, Any], split: Class) -> dict[str, Any]:
    parts = dict(entry["splits"][split])
    parts["source"] = entry.get("known_source", name)
    if entry["unknown_source"] != parts["source"]:
        parts["unknown_source"] = entry["unknown_source"]
    total = entry.get("num_classes_total", 10)  # CIFAR+N: the knowns are of CIFAR-10
    return parts | {"classes": range(total)}


def _tuple(value: Any) -> tuple[Class, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


@cache
def _data() -> dict[str, Any]:
    return _read(files("openset.protocols").joinpath(_FILE).read_bytes())


def _read(packed: bytes) -> dict[str, Any]:
    try:
        text = lzma.decompress(packed)
    except lzma.LZMAError as error:
        text, why = b"", f" ({error})"
    else:
        why = ""
    if hashlib.sha256(text).hexdigest() != _SHA256:
        msg = f"published: {_FILE} is damaged{why}. Install openset again"
        raise ArtefactError(msg)
    return json.loads(text)
