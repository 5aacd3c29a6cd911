"""`Draws`: several protocols; it also finds those that are the same problem."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

from openset import _check
from openset._types import ArtefactError
from openset.protocols.protocol import Protocol, read_json, save_json

_KIND, _SCHEMA = "openset.Draws", 1


@dataclass(frozen=True)
class Draws(Sequence[Protocol]):
    """A sequence of protocols: repeated draws, or a grid over openness.

    Independent draws may coincide; :attr:`duplicates` tells which do. A standard
    deviation over draws that coincide is too small.

    Examples
    --------
    >>> draws = Draws([Protocol(known=[0, 1], unknown=[2])] * 2)
    >>> draws
    Draws(2 protocols, 1 distinct, openness 0.106)
    >>> draws.duplicates
    ((0, 1),)
    """

    protocols: tuple[Protocol, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocols", tuple(self.protocols))
        for protocol in self.protocols:
            if not isinstance(protocol, Protocol):
                rule, got = "Protocol values", repr(protocol)
                _check.fail("Draws", "protocols", rule, got, error=TypeError)
        if not self.protocols:
            _check.fail("Draws", "protocols", "non-empty", "none")

    @overload
    def __getitem__(self, index: int) -> Protocol: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Protocol, ...]: ...
    def __getitem__(self, index: int | slice) -> Protocol | tuple[Protocol, ...]:
        return self.protocols[index]

    def __len__(self) -> int:
        return len(self.protocols)

    def __repr__(self) -> str:
        values = sorted({f"{p.openness:.3f}" for p in self.protocols})
        span = values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"
        return (
            f"Draws({len(self)} protocols, {self.n_distinct} distinct, openness {span})"
        )

    @cached_property
    def duplicates(self) -> tuple[tuple[int, ...], ...]:
        """Positions of protocols with the same classes in each part, group by group."""
        where: dict[str, list[int]] = {}
        for i, protocol in enumerate(self.protocols):
            where.setdefault(protocol.problem, []).append(i)
        return tuple(tuple(group) for group in where.values() if len(group) > 1)

    @cached_property
    def n_distinct(self) -> int:
        """Number of different problems."""
        return len({protocol.problem for protocol in self.protocols})

    def to_json(self) -> str:
        """Return all protocols as one JSON text."""
        items = [json.loads(protocol.to_json()) for protocol in self.protocols]
        head: dict[str, Any] = {"kind": _KIND, "schema": _SCHEMA}
        return json.dumps(head | {"protocols": items}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote."""
        return cls.from_mapping("Draws.from_json", read_json("Draws.from_json", text))

    @classmethod
    def from_mapping(cls, caller: str, data: Any) -> Self:
        """Read parsed JSON; `caller` is for errors."""
        head = {"kind": _KIND, "schema": _SCHEMA}
        if not isinstance(data, dict) or {k: data.get(k) for k in head} != head:
            rule = f"{_KIND!r} and {_SCHEMA}"
            _check.fail(caller, "kind and schema", rule, "others", error=ArtefactError)
        items = data.get("protocols")
        if not isinstance(items, list) or not items:
            rule = "a non-empty list"
            _check.fail(caller, "protocols", rule, repr(items), error=ArtefactError)
        return cls(
            tuple(
                Protocol.from_mapping(f"{caller}: protocols[{i}]", item)
                for i, item in enumerate(items)
            )
        )

    def save(self, path: str | Path) -> Path:
        """Write all protocols as one JSON file."""
        return save_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a JSON file that :meth:`save` wrote."""
        caller = f"Draws.load({str(path)!r})"
        return cls.from_mapping(caller, read_json(caller, Path(path)))


def load(path: str | Path) -> Protocol | Draws:
    """Read a JSON file that holds one protocol, or several."""
    caller = f"protocols.load({str(path)!r})"
    data = read_json(caller, Path(path))
    if isinstance(data, dict) and data.get("kind") == _KIND:
        return Draws.from_mapping(caller, data)
    return Protocol.from_mapping(caller, data)
