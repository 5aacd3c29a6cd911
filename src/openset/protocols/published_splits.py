"""Published splits of the literature, shipped with the package."""

import json
import lzma
from functools import cache
from importlib.resources import files
from typing import Any

from openset import _check
from openset.protocols.classes import Class
from openset.protocols.protocol import Protocol


def names() -> list[str]:
    """Return the names of all published splits."""
    return list(_published())


def splits(name: str) -> tuple[Class, ...]:
    """Return the splits published under `name`: numbers, or levels of difficulty.

    Examples
    --------
    >>> splits("cifar10"), splits("cub")
    ((0, 1, 2, 3, 4), ('Easy', 'Medium', 'Hard'))
    """
    _check.one_of("protocols.splits", "name", name, names())
    return tuple(_published()[name])


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
    # "0" from a command line and "easy" in lower case are fine.
    options = {str(option).lower(): option for option in splits(name)}
    key = str(split).lower()
    if isinstance(split, bool) or key not in options:
        rule = "one of " + ", ".join(map(repr, options.values()))
        _check.fail("published", f"split of {name!r}", rule, repr(split))
    split = options[key]
    return Protocol(**_published()[name][split], name=f"{name}/{split}")


@cache
def _published() -> dict[str, dict[Class, dict[str, Any]]]:
    """Return the arguments of `Protocol` for each split, by name."""
    packed = files("openset.protocols").joinpath("splits.json.xz").read_bytes()
    found = json.loads(lzma.decompress(packed))["splits"]
    return {
        name: dict(enumerate(one) if isinstance(one, list) else one)
        for name, one in found.items()
    }
