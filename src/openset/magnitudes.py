"""Magnitudes of features, of known and of unknown samples.

PostMax divides the largest logit by the L2 norm of the features, because unknown
samples have larger norms than known ones in ImageNet networks. In other networks the
norms are smaller, and dividing may still help: so its effect is measured, too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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
_COLUMNS = 64  # of the heat map: neighbours in the sorted order are averaged


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureMagnitudes:
    """Length of the feature of every sample, and examples of one class.

    `groups` are ``"known"`` and the groups of unknown samples; `codes` number them per
    sample. `top_logits` are the largest logits, None without logits. `examples` holds,
    per group, squared features of samples classified as `example_class`: one row per
    sample; the columns are features in increasing order of their mean square over the
    known samples of that class, neighbours averaged.
    """

    lengths: NDArray[np.float64]
    codes: NDArray[np.int64]
    groups: tuple[str, ...]
    top_logits: NDArray[np.float64] | None = None
    examples: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    example_class: str = ""

    def __repr__(self) -> str:
        counts = ", ".join(f"{g}={self.of(g).size}" for g in self.groups)
        return f"FeatureMagnitudes({counts})"

    def of(self, group: str) -> NDArray[np.float64]:
        """Return the lengths of one group."""
        return self.lengths[self.codes == self.groups.index(group)]

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
        return self.is_unknown if group is None else self.codes == self._number(group)

    def _number(self, group: str) -> int:
        options = list(self.groups)
        _check.one_of("FeatureMagnitudes", "group", group, options)
        return options.index(group)

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
        path = Path(path)
        arrays: dict[str, NDArray[Any]] = {
            "lengths": self.lengths.astype(np.float32),
            "codes": self.codes.astype(np.int16),
            "groups": np.array(self.groups, dtype=np.str_),
            "example_class": np.array(self.example_class),
            "key": np.array(json.dumps(dict(key or {}), sort_keys=True)),
        }
        if self.top_logits is not None:
            arrays["top_logits"] = self.top_logits.astype(np.float32)
        for group, rows in self.examples.items():
            number = self.groups.index(group)
            arrays[f"examples_{number}"] = rows.astype(np.float32)
        _npz.write(path, arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> tuple[Self, dict[str, Any]]:
        """Read what :meth:`save` wrote: the magnitudes, and the key."""
        caller = "FeatureMagnitudes.load"
        arrays = _npz.read(caller, Path(path))
        try:
            groups = tuple(str(name) for name in arrays["groups"])
            top = arrays.get("top_logits")
            one = cls(
                lengths=arrays["lengths"].astype(np.float64),
                codes=arrays["codes"].astype(np.int64),
                groups=groups,
                top_logits=None if top is None else top.astype(np.float64),
                examples={
                    group: arrays[f"examples_{i}"].astype(np.float64)
                    for i, group in enumerate(groups)
                    if f"examples_{i}" in arrays
                },
                example_class=str(arrays["example_class"]),
            )
            return one, json.loads(str(arrays["key"]))
        except (KeyError, ValueError) as error:
            msg = f"{caller}: {path} is damaged ({error!r}). Delete it"
            raise ArtefactError(msg) from error


def measure(
    outputs: "Outputs | Mapping[str, Outputs]",
    *,
    example_class: int | None = None,
    n_examples: int = 20,
    rng: int = 0,
) -> FeatureMagnitudes:
    """Measure the features of known and unknown samples.

    Parameters
    ----------
    outputs
        Labelled outputs with features: label -1 marks unknown samples, `groups` say
        where they come from. Or several by name: the name is the group of the unknown
        samples in it.
    example_class
        Class whose samples are shown as examples. Default: the class predicted for
        unknown samples of most groups, and most often.
    n_examples
        Largest number of examples per group, drawn at random.
    rng
        Seed of that draw.

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
    n_examples = _check.positive_int(caller, "n_examples", n_examples)
    parts = [_part(caller, name, one) for name, one in table.items()]
    names = sorted({str(n) for p in parts for n in np.unique(p.names[p.is_unknown])})
    number = {name: i + 1 for i, name in enumerate(names)}
    codes = np.concatenate(
        [
            np.where(p.is_unknown, _numbered(p.names, p.is_unknown, number), 0)
            for p in parts
        ]
    )
    _check.both_sides(caller, int((codes == 0).sum()), int((codes > 0).sum()))
    has_logits = all(part.top is not None for part in parts)
    found = FeatureMagnitudes(
        lengths=np.concatenate([part.lengths for part in parts]),
        codes=codes,
        groups=(KNOWN, *names),
        top_logits=np.concatenate([part.top for part in parts]) if has_logits else None,
    )
    if not has_logits:
        return found
    return _with_examples(
        found, list(table.values()), parts, chosen=example_class, n=n_examples, rng=rng
    )


@dataclass(frozen=True, eq=False)
class _Part:
    lengths: NDArray[np.float64]
    top: NDArray[np.float64] | None
    predicted: NDArray[np.int64] | None
    labels: NDArray[np.int64]
    names: NDArray[np.str_]

    @property
    def is_unknown(self) -> NDArray[np.bool_]:
        return self.labels == UNKNOWN


def _part(caller: str, name: str, one: "Outputs") -> _Part:
    for needed in ("features", "labels"):
        if getattr(one, needed, None) is None:
            msg = _check.must(
                f"outputs with {needed}", caller=caller, name="outputs", got="none"
            )
            raise ValueError(msg)
    labels = np.asarray(one.labels)
    lengths, top, predicted = [], [], []
    for batch in one.batches(_BATCH):
        here = batch.to("numpy")
        features = np.asarray(here.features, dtype=np.float64)
        lengths.append(np.sqrt(np.einsum("ij,ij->i", features, features)))
        if here.logits is not None:
            logits = np.asarray(here.logits)
            predicted.append(logits.argmax(axis=1))
            top.append(logits.max(axis=1).astype(np.float64))
    names = np.full(len(one), name or "unknown")
    if not name and one.groups is not None:
        names = np.where(one.groups.astype(str) == "", "unknown", one.groups)
    return _Part(
        lengths=np.concatenate(lengths),
        top=np.concatenate(top) if top else None,
        predicted=np.concatenate(predicted) if predicted else None,
        labels=labels,
        # A group of unknowns may be called "known": keep it apart from the others.
        names=np.where(names == KNOWN, "unknown: known", names).astype(np.str_),
    )


def _numbered(
    names: NDArray[np.str_], mask: NDArray[np.bool_], number: Mapping[str, int]
) -> NDArray[np.int64]:
    found, inverse = np.unique(names, return_inverse=True)
    return np.array([number.get(str(name), 0) for name in found])[inverse] * mask


def _share_larger(
    values: NDArray[np.float64], of: NDArray[np.bool_], than: NDArray[np.bool_]
) -> float:
    """Share of pairs in which a value of the first is larger; equal ones count half."""
    ordered, mine = np.sort(values[than]), values[of]
    below = np.searchsorted(ordered, mine, side="left")
    upto = np.searchsorted(ordered, mine, side="right")
    return float((below + upto).sum() / (2 * ordered.size * mine.size))


def _with_examples(
    found: FeatureMagnitudes,
    sets: "list[Outputs]",
    parts: list[_Part],
    *,
    chosen: int | None,
    n: int,
    rng: int,
) -> FeatureMagnitudes:
    labels = np.concatenate([part.labels for part in parts])
    predicted = np.concatenate([part.predicted for part in parts])
    if chosen is None:
        # Of the classes with correctly classified samples, the one that samples of most
        # groups, and then most samples, are taken for.
        size = int(predicted.max()) + 1
        has_known = np.bincount(labels[labels == predicted], minlength=size)
        if not has_known.any():
            return found
        taken = np.zeros((len(found.groups), size), dtype=np.int64)
        np.add.at(taken, (found.codes, predicted), 1)
        groups, total = (taken[1:] > 0).sum(axis=0), taken[1:].sum(axis=0)
        order = np.lexsort((-np.arange(size), total, groups, has_known > 0))
        chosen = int(order[-1])
    else:
        chosen = _check.integer("magnitudes.measure", "example_class", chosen, low=0)
    draw = np.random.default_rng(rng)
    is_example = (predicted == chosen) & ((labels == chosen) | found.is_unknown)
    rows = {}
    for i, group in enumerate(found.groups):
        mine = np.flatnonzero(is_example & (found.codes == i))
        if mine.size > n:
            mine = np.sort(draw.choice(mine, n, replace=False))
        rows[group] = mine
    if not rows[KNOWN].size:
        return found
    squares = {
        group: _features(sets, mine) ** 2 for group, mine in rows.items() if mine.size
    }
    order = np.argsort(squares[KNOWN].mean(axis=0), kind="stable")
    pieces = np.array_split(order, min(_COLUMNS, order.size))
    names = sets[0].classes
    return FeatureMagnitudes(
        lengths=found.lengths,
        codes=found.codes,
        groups=found.groups,
        top_logits=found.top_logits,
        examples={
            group: np.stack([of[:, piece].mean(axis=1) for piece in pieces], axis=1)
            for group, of in squares.items()
        },
        example_class=names[chosen] if names else str(chosen),
    )


def _features(sets: "list[Outputs]", rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the features of rows of the joined sets."""
    found, first = [], 0
    for one in sets:
        mine = rows[(rows >= first) & (rows < first + len(one))] - first
        if mine.size:
            features = one.take(mine).to("numpy").features
            found.append(np.asarray(features, dtype=np.float64))
        first += len(one)
    return np.concatenate(found)
