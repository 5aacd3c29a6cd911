"""Magnitudes of features, of known and of unknown samples.

PostMax divides the largest logit by the L2 norm of the features, because unknown
samples have larger norms than known ones in ImageNet networks. In other networks the
norms are smaller, and dividing may still help: so its effect is measured, too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check, _npz
from openset._types import UNKNOWN, ArtefactError, UndefinedMetricError

if TYPE_CHECKING:
    from openset.outputs import Outputs

KNOWN = "known"
"""Group of the known samples."""

_BATCH = 1 << 15  # rows read at a time: features may be memory-mapped


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureMagnitudes:
    """Length of the feature of every sample.

    `groups` are ``"known"`` and the groups of unknown samples; `codes` number them per
    sample. `top_logits` are the largest logits, None without logits.
    """

    lengths: NDArray[np.float64]
    codes: NDArray[np.int64]
    groups: tuple[str, ...]
    top_logits: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        counts = ", ".join(f"{g}={self.of(g).size}" for g in self.groups)
        return f"FeatureMagnitudes({counts})"

    def of(self, group: str) -> NDArray[np.float64]:
        """Return the lengths of one group."""
        return self.lengths[self._mask(group)]

    @property
    def is_unknown(self) -> NDArray[np.bool_]:
        """Which samples are unknown."""
        return self.codes > 0

    def longer(self, group: str | None = None) -> float:
        """Return the share of pairs whose unknown sample has the larger magnitude.

        Equal magnitudes count half. Of one group of unknowns, or of all.
        """
        return _share_larger(self.lengths, self._mask(group), ~self.is_unknown)

    def auroc(self, *, divided: bool, group: str | None = None) -> float:
        """Return the AUROC of the largest logit, or of it divided by the magnitude."""
        if self.top_logits is None:
            msg = "FeatureMagnitudes.auroc: undefined without logits"
            raise UndefinedMetricError(msg)
        values = self.top_logits
        if divided:
            is_some = self.lengths > 0
            ratio = values / np.where(is_some, self.lengths, 1.0)
            values = np.where(is_some, ratio, -np.inf)
        return _share_larger(values, ~self.is_unknown, self._mask(group))

    def _mask(self, group: str | None) -> NDArray[np.bool_]:
        if group is None:
            return self.is_unknown
        options = list(self.groups)
        _check.one_of("FeatureMagnitudes", "group", group, options)
        return self.codes == options.index(group)

    def sentence(self) -> str:
        """Describe the magnitudes and the effect of dividing by them.

        Examples
        --------
        >>> from openset import Outputs
        >>> f = [[3.0, 4.0], [4.0, 3.0], [9.0, 0.0], [0.0, 8.0]]
        >>> z = [[6.0, 0.0], [5.0, 0.0], [6.0, 0.0], [0.0, 4.0]]
        >>> one = Outputs(features=f, logits=z, labels=[0, 0, -1, -1])
        >>> print(measure(one).sentence())
        Feature magnitude (L2 norm): median 5 of known and 8.5 of unknown ...
        """
        known, unknown = self.lengths[~self.is_unknown], self.lengths[self.is_unknown]
        longer = self.longer()
        word, share = ("larger", longer) if longer >= 0.5 else ("smaller", 1 - longer)
        text = (
            f"Feature magnitude (L2 norm): median {np.median(known):.3g} of known and "
            f"{np.median(unknown):.3g} of unknown samples; in {share:.0%} of pairs "
            f"that of the unknown sample is {word}."
        ).replace("%", " %")
        if self.top_logits is None:
            return text
        before, after = self.auroc(divided=False), self.auroc(divided=True)
        return (
            f"{text} Dividing the largest logit by it, as PostMax does, changes AUROC "
            f"from {before:.3f} to {after:.3f}."
        )

    def save(self, path: str | Path, *, key: Mapping[str, Any] | None = None) -> Path:
        """Write a ``.npz`` file; `key` says what the features belong to."""
        arrays: dict[str, NDArray[Any]] = {
            "lengths": self.lengths.astype(np.float32),
            "codes": self.codes.astype(np.int16),
            "groups": np.array(self.groups, dtype=np.str_),
            "key": np.array(json.dumps(dict(key or {}), sort_keys=True)),
        }
        if self.top_logits is not None:
            arrays["top_logits"] = self.top_logits.astype(np.float32)
        _npz.save(Path(path), arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> tuple[Self, dict[str, Any]]:
        """Read what :meth:`save` wrote: the magnitudes, and the key."""
        caller = "FeatureMagnitudes.load"
        arrays, _ = _npz.load(caller, Path(path))
        try:
            top = arrays.get("top_logits")
            one = cls(
                lengths=arrays["lengths"].astype(np.float64),
                codes=arrays["codes"].astype(np.int64),
                groups=tuple(map(str, arrays["groups"])),
                top_logits=None if top is None else top.astype(np.float64),
            )
            return one, json.loads(str(arrays["key"]))
        except (KeyError, ValueError) as error:
            msg = f"{caller}: {path} is damaged ({error!r}). Delete it"
            raise ArtefactError(msg) from error


def measure(outputs: "Outputs | Mapping[str, Outputs]") -> FeatureMagnitudes:
    """Measure the features of known and unknown samples.

    Parameters
    ----------
    outputs
        Labelled outputs with features: label -1 marks unknown samples, `groups` say
        where they come from. Or several by name: the name is the group of the unknown
        samples in it.

    Examples
    --------
    >>> from openset import Outputs
    >>> one = Outputs(features=[[3.0, 4.0], [1.0, 0.0]], labels=[0, -1])
    >>> found = measure(one)
    >>> found.lengths, found.longer()
    (array([5., 1.]), 0.0)
    """
    caller = "magnitudes.measure"
    table = outputs if isinstance(outputs, Mapping) else {"": outputs}
    lengths, tops, names = [], [], []
    for name, one in table.items():
        for needed in ("features", "labels"):
            if getattr(one, needed, None) is None:
                _check.fail(caller, "outputs", f"outputs with {needed}", "none")
        for batch in one.batches(_BATCH):
            here = batch.to("numpy")
            features = np.asarray(here.features, dtype=np.float64)
            lengths.append(np.sqrt(np.einsum("ij,ij->i", features, features)))
            if here.logits is not None:
                tops.append(np.asarray(here.logits).max(axis=1).astype(np.float64))
        groups = np.full(len(one), name, dtype=np.object_)
        if not name and one.groups is not None:
            groups = one.groups.astype(np.object_)
        # A group of unknowns may be called "known": keep it apart from the others.
        groups[groups == ""] = "unknown"
        groups[groups == KNOWN] = f"unknown: {KNOWN}"
        groups[np.asarray(one.labels) != UNKNOWN] = ""  # before all other names
        names.append(groups.astype(np.str_))
    every, codes = np.unique(np.concatenate(names), return_inverse=True)
    n_known = int((codes == 0).sum()) if every[0] == "" else 0
    _check.both_sides(caller, n_known, codes.size - n_known)
    has_logits = sum(map(len, tops)) == codes.size
    return FeatureMagnitudes(
        lengths=np.concatenate(lengths),
        codes=codes.astype(np.int64),
        groups=(KNOWN, *map(str, every[1:])),
        top_logits=np.concatenate(tops) if has_logits else None,
    )


def _share_larger(
    values: NDArray[np.float64], of: NDArray[np.bool_], than: NDArray[np.bool_]
) -> float:
    """Share of pairs in which a value of the first is larger; equal ones count half."""
    ordered, mine = np.sort(values[than]), values[of]
    below = np.searchsorted(ordered, mine, side="left")
    upto = np.searchsorted(ordered, mine, side="right")
    return float((below + upto).sum() / (2 * ordered.size * mine.size))
