"""`Spec`: everything that determines a training run, and a name for it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np

from openset import __version__, _check
from openset.protocols import Protocol
from openset.train.augment import Pipeline
from openset.train.recipes import Recipe

_TYPED = {"parts": "accumulate"}  # what users call it
_SHORT = 60  # letters


def _number(value: Any) -> Any:
    """Return a number of NumPy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    got = type(value).__name__
    rule = "numbers, strings, or lists of them"
    msg = _check.must(rule, caller="train.fit", name="options", got=got)
    raise TypeError(msg)


def _tupled(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as they were before JSON made lists of tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What is trained, on what, how.

    Two runs with equal specs on one kind of device give equal weights. Where they run
    (devices, precision apart) is no part of it.
    """

    method: str
    data: str
    protocol: Protocol
    network: str
    recipe: Recipe
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    precision: str = "32-true"
    parts: int = 1
    samples: str = ""

    @property
    def title(self) -> str:
        """A short name for progress bars and tables."""
        name = self.protocol.name or self.data
        return f"{self.method} {name} seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data; the package's version goes with it."""
        plain = asdict(self) | {"protocol": json.loads(self.protocol.to_json())}
        plain["version"] = __version__
        return json.loads(json.dumps(plain, default=_number))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Return the spec that :meth:`to_json` has made plain."""
        recipe = _tupled(plain["recipe"])
        made = recipe | {"pipeline": Pipeline(**_tupled(recipe["pipeline"]))}
        own = {field.name: plain[field.name] for field in fields(cls)}
        own["protocol"] = Protocol.from_json(json.dumps(plain["protocol"]))
        return cls(**own | {"recipe": Recipe(**made)})

    def differing(self, other: Mapping[str, Any]) -> list[str]:
        """Return what sets a run with that plain data apart from this one.

        The package's version does not, nor what an older version did not record.
        """
        ours = self.to_json()
        return [
            told
            for k in sorted(ours)
            if k != "version" and k in other and ours[k] != other[k]
            for told in _told(_TYPED.get(k, k), ours[k], other[k])
        ]

    @property
    def hash(self) -> str:
        """Content hash; the version of the package is no part of it."""
        plain = self.to_json()
        del plain["version"]
        text = json.dumps(plain, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _told(name: str, here: Any, there: Any) -> list[str]:
    """Name what differs, down to the field, with both values if they are short."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        return [
            told
            for key in sorted({*here, *there} - {"hash"})  # it says nothing by itself
            if here.get(key) != there.get(key)
            for told in _told(f"{name} {key}", here.get(key), there.get(key))
        ]
    values = f"{there!r} there, {here!r} here"
    is_telling = name != "samples" and len(values) <= _SHORT
    return [f"{name} ({values})" if is_telling else name]
