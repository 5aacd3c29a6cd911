"""Sample images of the training and the test part of a problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset.datasets import Cut, Samples


@dataclass(frozen=True, eq=False)
class Pictures:
    """Some images of one part, the class of each, and whether that is known."""

    images: NDArray[np.uint8]
    classes: NDArray[np.str_]
    is_known: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Gallery:
    """Randomly chosen images of the training and the test part of a problem."""

    parts: Mapping[str, Pictures]

    def to_frame(self) -> Any:
        """Return a pandas table: part, class, is_known, in the order drawn."""
        pd = _extras.optional("Gallery.to_frame", "pandas", name="tables")
        return pd.DataFrame(
            [
                {"part": part, "class": str(name), "is_known": bool(known)}
                for part, shown in self.parts.items()
                for name, known in zip(shown.classes, shown.is_known, strict=True)
            ]
        )

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw with matplotlib; also write ``.pdf``, ``.svg`` or ``.png`` to `path`."""
        from openset.report._matplotlib import draw  # noqa: PLC0415  # it knows this class

        return draw(self, path)


def gallery(cut: Cut, *, n: int = 50, rng: int | np.random.Generator = 0) -> Gallery:
    """Choose `n` training and `n` test images at random.

    Training images are of known classes only; among the test images are unknown ones.
    Drawn, known images are red and unknown ones blue.

    Parameters
    ----------
    cut
        A problem with images of one size: :func:`openset.datasets.cut`.
    n
        Images per part; fewer if the part has fewer.
    rng
        Seed or generator.

    References
    ----------
    Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
    recognition evaluation", 2024, figure 5.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> grey = np.zeros((60, 4, 4), dtype=np.uint8)
    >>> data = datasets.from_arrays(grey, np.repeat(["cat", "dog", "fox"], 20))
    >>> data = data.with_parts(test=0.5)
    >>> fox = protocols.Protocol(known=["cat", "dog"], unknown=["fox"])
    >>> shown = gallery(datasets.cut(data, fox), n=6)
    >>> shown.parts["train"].images.shape, bool(shown.parts["train"].is_known.all())
    ((6, 4, 4), True)
    """
    caller = "report.gallery"
    rule, remedy = "a Cut of images", "Make one with datasets.cut(dataset, protocol)"
    _check.instance(caller, "cut", cut, Cut, rule=rule, remedy=remedy)
    n = _check.positive_int(caller, "n", n)
    generator = np.random.default_rng(rng)
    parts = {
        name: _chosen(caller, samples, n, generator)
        for name, samples in (("train", cut.train), ("test", cut.tests[0]))
    }
    return Gallery(parts=parts)


def _chosen(
    caller: str, samples: Samples, n: int, generator: np.random.Generator
) -> Pictures:
    images = samples.inputs
    if samples.kind != "image" or not isinstance(images, np.ndarray):
        rule = "images of one size"
        got = samples.kind if samples.kind != "image" else "images of several sizes"
        raise ValueError(_check.must(rule, caller=caller, name="cut", got=got))
    rows = generator.choice(len(samples), min(n, len(samples)), replace=False)
    return Pictures(
        images=np.asarray(images[rows]),
        classes=samples.groups[rows],
        is_known=samples.labels[rows] >= 0,
    )
