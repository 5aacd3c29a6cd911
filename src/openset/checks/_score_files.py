"""Files of scores that are read when a check needs them."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from openset._types import ArtefactError
from openset.runs import read_scores
from openset.scores import Scores

SUFFIXES = frozenset({".npz", ".csv", ".parquet"})
BUDGET = 1 << 28  # bytes of scores kept in memory at a time


class ScoreFiles(Mapping[str, Scores]):
    """Scores by name; read when used, and kept as long as `BUDGET` allows."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = dict(paths)
        self._kept: OrderedDict[str, Scores] = OrderedDict()
        self._room = BUDGET

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __getitem__(self, name: str) -> Scores:
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        scores = read_scores(self._paths[name])
        self._kept[name] = scores
        self._room -= _size(scores)
        while self._room < 0 and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._room += _size(oldest)
        return scores


def _size(scores: Scores) -> int:
    columns = scores.known, scores.labels, scores.predicted, scores.groups, scores.ids
    return sum(column.nbytes for column in columns if column is not None)


def score_paths(folder: Path) -> dict[str, Path]:
    """Return the files of scores in a folder by name, in the order of their names."""
    paths: dict[str, Path] = {}
    files = sorted(folder.glob("*"), key=lambda found: found.name)
    for file in files:
        if file.suffix not in SUFFIXES:
            continue
        if file.stem in paths:
            msg = (
                f"checks.run_folder: {folder} must have one file per name, got "
                f"{file.stem!r} twice"
            )
            raise ArtefactError(msg)
        paths[file.stem] = file
    return paths


def sample(strata: Mapping[str, str], limit: int | None) -> list[str]:
    """Choose `limit` names at random, the same share of each stratum.

    The same names give the same choice.

    Examples
    --------
    >>> sample({"a1": "msp", "a2": "msp", "a3": "msp", "b1": "energy"}, 2)
    ['a2', 'b1']
    """
    if limit is None or len(strata) <= limit:
        return list(strata)
    groups: dict[str, list[str]] = {}
    # In the order of a hash, which mixes patterns in the names (seeds, repeats).
    for name in sorted(strata, key=lambda n: hashlib.sha256(n.encode()).digest()):
        groups.setdefault(strata[name], []).append(name)
    chosen: set[str] = set()
    depth = 0
    while len(chosen) < limit:
        layer = [names[depth] for names in groups.values() if depth < len(names)]
        chosen.update(layer[: limit - len(chosen)])
        depth += 1
    return [name for name in strata if name in chosen]
