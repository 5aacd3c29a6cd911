"""`Spec`: everything that determines the weights of a training run, as plain data."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np

from openset import __version__, _check, _plugins
from openset.protocols import Protocol
from openset.train.augment import Pipeline
from openset.train.methods import REGISTRY, Method
from openset.train.recipes import Recipe

_LONGEST = 60  # characters of two values that a message shows
_NOT_COMPARED = ("version", "distribution")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What is trained, on which samples, by which recipe.

    Two runs with equal specs on the same kind of device give equal weights. Where they
    run is not part of it, apart from the precision.
    """

    method: str
    plugin: str = ""
    """``module:Class`` of a method that does not come with openset."""
    data: str
    protocol: Protocol
    network: str
    pretrained: str = ""
    """"published", or name and hash of a file of weights; empty: random weights."""
    recipe: Recipe
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    precision: str = "32-true"
    accumulate: int = 1
    samples: str = ""

    @property
    def title(self) -> str:
        """A short name for progress bars and tables."""
        name = self.protocol.name or self.data
        return f"{self.method} {name} seed {self.seed}"

    @property
    def method_class(self) -> type[Method]:
        """The method's class; a spec from a file does not import anything."""
        written = self.plugin or None
        return REGISTRY.trusted(self.method, written, caller="train", plugins=())

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the versions of the packages it was made with."""
        plain = asdict(self) | {"protocol": json.loads(self.protocol.to_json())}
        plain["version"] = __version__
        if self.plugin:
            plain["distribution"] = _plugins.distribution(self.method_class)
        return json.loads(json.dumps(plain, default=_python_number))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Return the spec that :meth:`to_json` turned into plain data."""
        recipe = _with_tuples(plain["recipe"])
        recipe["pipeline"] = Pipeline(**_with_tuples(recipe["pipeline"]))
        found = {f.name: plain[f.name] for f in fields(cls) if f.name in plain}
        found["protocol"] = Protocol.from_json(json.dumps(plain["protocol"]))
        return cls(**found | {"recipe": Recipe(**recipe)})

    def differing(self, other: Mapping[str, Any]) -> list[str]:
        """Return how a run with that plain data differs from this one, in words.

        Versions are not compared, nor what an older version did not record.
        """
        ours = self.to_json()
        return [
            text
            for k in sorted(ours)
            if k not in _NOT_COMPARED and k in other and ours[k] != other[k]
            for text in _difference(k, ours[k], other[k])
        ]


def _python_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    got = type(value).__name__
    rule = "numbers, strings, or lists of them"
    msg = _check.must(rule, caller="train.fit", name="options", got=got)
    raise TypeError(msg)


def _with_tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists back into the tuples that JSON made lists of."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}


def _difference(name: str, here: Any, there: Any) -> list[str]:
    """Name what differs, down to the field, with both values if they are short."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        return [
            text
            for key in sorted({*here, *there} - {"hash"})  # it follows from the rest
            if here.get(key) != there.get(key)
            for text in _difference(f"{name} {key}", here.get(key), there.get(key))
        ]
    values = f"{there!r} there, {here!r} here"
    is_readable = name != "samples" and len(values) <= _LONGEST
    return [f"{name} ({values})" if is_readable else name]
