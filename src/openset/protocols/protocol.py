"""`Protocol`: which classes are known and which are unknown, as data."""

import hashlib
import json
import math
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any, Self

from openset import _check, _io, _npz
from openset._types import ArtefactError
from openset.protocols.classes import Class, class_list, few
from openset.protocols.sampling import UNKNOWNS

PARTS = ("known", "unknown", "negative", "surrogate")

_KIND = "openset.Protocol"
_SOURCES = {
    "known": "source",
    "unknown": "unknown_source",
    "negative": "negative_source",
    "surrogate": "surrogate_source",
}


class Saved:
    """A value that is written as JSON, into one file."""

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return the value as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def save(self, path: str | Path) -> Path:
        """Write a JSON file for :func:`load`; it appears only when complete."""
        path = Path(path)
        if path.suffix != ".json":
            _check.fail("Protocol.save", "path", "a .json file", repr(path.name))
        _io.put(path, self.to_json())
        return path


def openness(n_known: int, n_test: int) -> float:
    r"""Return the openness: 0 without unknown classes, close to 1 with many.

    .. math:: 1 - \sqrt{\frac{2\,|C_{TR}|}{|C_{TR}| + |C_{TE}|}}

    with :math:`|C_{TR}|` known classes and :math:`|C_{TE}|` classes at test time, the
    known ones among them: :math:`|C_{TE}|` = known + unknown.

    Parameters
    ----------
    n_known
        Number of classes the model is trained on.
    n_test
        Number of **all** classes of the test set: known plus unknown.

    References
    ----------
    Scheirer et al., Toward open set recognition, TPAMI 2013, in the form used by the
    class-imbalance paper (2024), whose five problems are (known, unknown) = (7, 5),
    (4, 3), (7, 8), (7, 9) and (2, 8).

    Examples
    --------
    Two known classes and eight unknown ones, ten at test time:

    >>> round(openness(2, 10), 3)
    0.423
    >>> openness(6, 6)
    0.0
    """
    n_known = _check.positive_int("openness", "n_known", n_known)
    n_test = _check.positive_int("openness", "n_test", n_test)
    if n_test < n_known:
        remedy = "It counts all classes of the test set: known plus unknown"
        _check.fail("openness", "n_test", f">= n_known = {n_known}", n_test, remedy)
    return 1.0 - math.sqrt(2 * n_known / (n_known + n_test))


@dataclass(frozen=True, kw_only=True)
class Protocol(Saved):
    """Which classes are known, which are unknown, and how samples are divided.

    A protocol holds no samples: :func:`openset.datasets.cut` applies it to a data set.
    It is plain data with a content :attr:`hash`, so that two studies can show that they
    solved the same problem.

    Parameters
    ----------
    known
        Classes the model is trained on. Their order numbers them: ``known[i]`` is
        label i.
    unknown
        Classes that occur only in the test part, where their label is -1.
    negative
        Classes whose samples may be used in training as "none of the known"
        (known unknowns).
    surrogate
        Classes used as unknowns when a threshold is chosen. Disjoint from `unknown`: a
        threshold must not be chosen on the unknown classes it is tested on.
    source, unknown_source, negative_source, surrogate_source
        Names of the data sets of these parts. `source` may be empty (any data set); the
        others are `source` if empty. Parts of one source must be disjoint.
    classes
        All classes of `source`, if known; those in no part are :attr:`unused`.
    validation
        Share of each known class's training samples kept for validation.
    n_tests
        Number of disjoint test splits.
    unknowns
        With several test splits: "dealt" puts each unknown sample into one of them,
        "shared" puts all of them into each, as the PostMax paper does.
    seed
        Seed for drawing samples (validation share, test splits).
    name
        A title for tables; not part of the hash.

    Examples
    --------
    >>> p = Protocol(known=["cat", "dog"], unknown=["fox"])
    >>> p
    Protocol(known=2, unknown=1, openness=0.106, hash=b6b256ed)
    >>> Protocol.from_dict(p.to_dict()) == p
    True
    >>> Protocol(known=["cat", "dog"], unknown=["dog"])
    Traceback (most recent call last):
    ...
    ValueError: Protocol: known and unknown must be disjoint, got 'dog' in both...
    """

    known: tuple[Class, ...]
    unknown: tuple[Class, ...]
    negative: tuple[Class, ...] = ()
    surrogate: tuple[Class, ...] = ()
    source: str = ""
    unknown_source: str = ""
    negative_source: str = ""
    surrogate_source: str = ""
    classes: tuple[Class, ...] = ()
    validation: float = 0.0
    n_tests: int = 1
    unknowns: str = "dealt"
    seed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        caller, put = "Protocol", partial(object.__setattr__, self)
        for part in (*PARTS, "classes"):
            put(part, class_list(caller, part, getattr(self, part)))
        for part in ("known", "unknown"):
            if not getattr(self, part):
                _check.fail(caller, part, "non-empty", "no classes")
        for text in ("name", *_SOURCES.values()):
            value = getattr(self, text)
            if not isinstance(value, str):
                _check.fail(caller, text, "a string", repr(value), error=TypeError)
        share = _check.number(
            caller, "validation", self.validation, low=0, high=1, open_high=True
        )
        put("validation", share)
        put("n_tests", _check.positive_int(caller, "n_tests", self.n_tests))
        _check.one_of(caller, "unknowns", self.unknowns, UNKNOWNS)
        put("seed", _check.integer(caller, "seed", self.seed, low=0))
        self._check_classes()

    def _check_classes(self) -> None:
        """Parts of one data set are disjoint, and among its classes."""
        for one, other in combinations(PARTS, 2):
            there = set(getattr(self, other))
            both = [c for c in getattr(self, one) if c in there]
            if both and self.source_of(one) == self.source_of(other):
                remedy = (
                    "If they are classes of another data set with the same name or "
                    f"number, give {_SOURCES[other]}="
                )
                got = f"{few(both)} in both"
                _check.fail("Protocol", f"{one} and {other}", "disjoint", got, remedy)
        universe = set(self.classes)
        for part in PARTS if universe else ():
            strangers = [c for c in getattr(self, part) if c not in universe]
            if strangers and self.source_of(part) == self.source:
                remedy = f"classes has {len(universe)} entries: {few(self.classes)}"
                _check.fail("Protocol", part, "among classes", few(strangers), remedy)

    def __repr__(self) -> str:
        shown = [self.name] if self.name else []
        shown += [f"{p}={len(getattr(self, p))}" for p in PARTS if getattr(self, p)]
        if self.unused:
            shown.append(f"unused={len(self.unused)}")
        if self.n_tests > 1:
            shown.append(f"n_tests={self.n_tests}")
        shown += [f"openness={self.openness:.3f}", f"hash={self.hash[:8]}"]
        return f"Protocol({', '.join(shown)})"

    def source_of(self, part: str) -> str:
        """Return the data set the classes of a part belong to ('' = any)."""
        _check.one_of("Protocol.source_of", "part", part, PARTS)
        return getattr(self, _SOURCES[part]) or self.source

    @property
    def n_known(self) -> int:
        """Number of known classes."""
        return len(self.known)

    @property
    def n_unknown(self) -> int:
        """Number of unknown classes."""
        return len(self.unknown)

    @property
    def openness(self) -> float:
        """Openness: see :func:`openset.openness`."""
        return openness(self.n_known, self.n_known + self.n_unknown)

    @cached_property
    def unused(self) -> tuple[Class, ...]:
        """Those of `classes` that are in no part."""
        own = [part for part in PARTS if self.source_of(part) == self.source]
        used = {c for part in own for c in getattr(self, part)}
        return tuple(c for c in self.classes if c not in used)

    @cached_property
    def problem(self) -> str:
        """Hash of the classes of each part alone.

        Two protocols with the same `problem` have the same classes in each part,
        whatever the order of the lists, the seed and the rules for samples.
        """
        content = {
            part: [self.source_of(part), sorted(map(_key, getattr(self, part)))]
            for part in PARTS
        }
        return _digest(content)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything but the name; the same on every machine."""
        return _digest({k: v for k, v in self._content().items() if k != "name"})

    def _content(self) -> dict[str, Any]:
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the protocol as plain data, with its hash."""
        return {"kind": _KIND, "schema": 1, "hash": self.hash, **self._content()}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read what :meth:`to_dict` gave; the hash, if there, must fit the content."""
        content = _npz.need_kind("Protocol", "the file", data, _KIND)
        stated = content.pop("hash", None)
        try:
            protocol = cls(**content)
        except (TypeError, ValueError) as error:
            msg = f"not a protocol: {error}"
            raise ArtefactError(msg) from error
        if stated not in (None, protocol.hash):
            rule, got = f"that of the content ({protocol.hash[:12]}…)", str(stated)[:12]
            remedy = 'The file was changed; if that was intended, delete its "hash"'
            _check.fail("Protocol", "hash", rule, repr(got), remedy, ArtefactError)
        return protocol


def _key(value: Class) -> str:
    return json.dumps(value)  # 1 and "1" are different classes


def _digest(content: Any) -> str:
    # Sorted keys, no spaces, ASCII only: one spelling of one content.
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
