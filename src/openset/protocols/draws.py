"""`Draws`: several protocols; it also finds those that are the same problem."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from openset import _check, _io, _npz
from openset._types import ArtefactError
from openset.protocols.protocol import Protocol, Saved

_KIND = "openset.Draws"


@dataclass(frozen=True)
class Draws(Saved, Sequence[Protocol]):
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

    def __getitem__(self, index: Any) -> Any:
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

    def to_dict(self) -> dict[str, Any]:
        """Return all protocols as plain data."""
        protocols = [one.to_dict() for one in self.protocols]
        return {"kind": _KIND, "schema": 1, "protocols": protocols}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read what :meth:`to_dict` gave."""
        items = _npz.need_kind("Draws", "the file", data, _KIND).get("protocols")
        if not isinstance(items, list) or not items:
            rule, got = "a non-empty list", repr(items)
            _check.fail("Draws", "protocols", rule, got, error=ArtefactError)
        return cls(tuple(map(Protocol.from_dict, items)))


def load(path: str | Path) -> Protocol | Draws:
    """Read a JSON file that holds one protocol, or several."""
    with _io.naming(Path(path)):
        try:
            data = json.loads(Path(path).read_bytes())
        except ValueError as error:  # that of Unicode, too
            msg = f"not JSON: {error}"
            raise ArtefactError(msg) from error
        is_several = isinstance(data, dict) and data.get("kind") == _KIND
        return (Draws if is_several else Protocol).from_dict(data)
