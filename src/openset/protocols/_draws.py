"""`Draws`: several protocols; it also finds those that are the same problem."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

from openset._types import ArtefactError
from openset.protocols._protocol import Protocol, load_text, read_json, save_json

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
                msg = f"Draws: protocols must be Protocol values, got {protocol!r}"
                raise TypeError(msg)
        if not self.protocols:
            msg = "Draws: protocols must be non-empty, got none"
            raise ValueError(msg)

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
        caller = "Draws.from_json"
        return cls._from_mapping(caller, read_json(caller, text))

    @classmethod
    def _from_mapping(cls, caller: str, data: Any) -> Self:
        is_ours = isinstance(data, dict) and data.get("kind") == _KIND
        if not is_ours or data.get("schema") != _SCHEMA:
            msg = f"{caller}: kind and schema must be {_KIND!r} and {_SCHEMA}"
            raise ArtefactError(msg)
        items = data.get("protocols")
        if not isinstance(items, list) or not items:
            msg = f"{caller}: protocols must be a non-empty list, got {items!r}"
            raise ArtefactError(msg)
        return cls(
            tuple(
                Protocol._from_mapping(f"{caller}: protocols[{i}]", item)
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
        return cls._from_mapping(caller, read_json(caller, load_text(caller, path)))


def load(path: str | Path) -> Protocol | Draws:
    """Read a JSON file that holds one protocol, or several."""
    caller = f"protocols.load({str(path)!r})"
    data = read_json(caller, load_text(caller, path))
    if isinstance(data, dict) and data.get("kind") == _KIND:
        return Draws._from_mapping(caller, data)
    return Protocol._from_mapping(caller, data)
