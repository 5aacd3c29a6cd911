"""The one sort: from scores to counts of accepted samples at each distinct score."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.metrics.sums import Floats, on_all_cores
from openset.scores import Scores

Keys = NDArray[np.uint64]

_CHUNK = 1 << 18  # samples sorted at a time
_PART = 1 << 17  # about as many keys are merged at a time: they stay in the cache
_STEP = 1 << 13  # every so many keys of a chunk, one is a candidate for a cut
_CORRECT, _UNKNOWN = 0, 2  # kinds; 1 is wrong
_QUARTERS = (1, 0, 2, 3)
"""The two highest bits of a float64: from 2 up, from 0 to 2, and the same below 0."""
_POSITIVE = (1, 0)
_HIGHEST = 7 if sys.byteorder == "little" else 0


def counts_by_level(scores: Scores) -> tuple[Floats, list[NDArray[Any]]]:
    """Return the distinct scores, best first, and the samples at or above each.

    These are counts of known, correct and unknown samples. Entry 0 is +inf with counts
    0: it rejects all.

    Chunks of samples are sorted by themselves, then merged between cuts by themselves:
    on all cores, in the cache. Sorted are integers that hold score and kind of a sample
    (:func:`_keys`), which is several times as fast as sorting indices, and exact.
    """
    starts = range(0, len(scores), _CHUNK)
    chunks = on_all_cores(lambda start: _keys(scores, start), starts)
    of_quarter = [_cut(runs) for runs in zip(*chunks, strict=True)]
    parts = [part for of_one in of_quarter for part in of_one]
    quarters = np.repeat(_QUARTERS, list(map(len, of_quarter))).tolist()
    merged = on_all_cores(_merged, parts, n=len(scores))
    del chunks, of_quarter, parts  # 8 bytes per sample
    # Levels and samples of each kind before each part, and at the end.
    before = np.cumsum([[0] * 4, *(tally for _, tally in merged)], axis=0).tolist()
    dtype: Any = np.int32 if len(scores) < 2**31 - 1 else np.int64
    values = np.full(before[-1][0] + 1, np.inf)
    columns = [np.zeros(values.size, dtype) for _ in range(3)]

    def fill(part: int) -> None:
        keys, (level, *n_before) = merged[part][0], before[part]
        rows = slice(level + 1, before[part + 1][0] + 1)
        kind, n = keys.astype(np.uint8) & 3, sum(n_before)
        counts = [np.arange(n + 1, n + 1 + keys.size, dtype=dtype)]
        for one in (_CORRECT, _UNKNOWN):
            steps = (kind == one).astype(dtype)
            steps[0] += n_before[one]
            counts.append(np.cumsum(steps, dtype=dtype))
        if values[rows].size < keys.size:  # the last of equal scores counts all
            last = np.flatnonzero(np.append(_differ(keys), True))
            keys, *counts = (one[last] for one in (keys, *counts))
        values[rows] = _scores_of(keys, quarters[part])
        n_all, n_correct, n_unknown = counts
        found = (n_all - n_unknown, n_correct, n_unknown)
        for column, count in zip(columns, found, strict=True):
            column[rows] = count

    on_all_cores(fill, range(len(merged)), n=len(scores))
    return values, columns


def _keys(scores: Scores, start: int) -> list[Keys]:
    """Return sorted keys of a chunk, by quarter: the better a score, the smaller.

    The bits of positive numbers rise with them, those of negative ones fall; turned
    over where they rise, they fall everywhere. The two highest bits are equal in a
    quarter: the kind of the sample takes their room.
    """
    rows = slice(start, start + _CHUNK)
    labels = scores.labels[rows]
    # An unknown sample differs from what was predicted.
    kind = (labels != scores.predicted[rows]).view(np.uint8) + (labels < 0)
    bits = (scores.known[rows] + 0.0).view(np.uint64)  # the two zeros are one score
    highest = bits.view(np.uint8)[_HIGHEST::8] >> 6
    found = []
    for quarter in _QUARTERS:
        chosen: Any = np.flatnonzero(highest == quarter)
        if chosen.size == bits.size:
            chosen = slice(None)
        keys = bits[chosen] ^ _turned(quarter)
        keys <<= np.uint64(2)
        keys |= kind[chosen]
        keys.sort()
        found.append(keys)
    return found


def _turned(quarter: int) -> np.uint64:
    return np.uint64(2**64 - 1 if quarter in _POSITIVE else 0)


def _scores_of(keys: Keys, quarter: int) -> Floats:
    """Return the scores that keys were made of."""
    bits = (keys >> np.uint64(2)) ^ (_turned(quarter) >> np.uint64(2))
    return (bits | np.uint64(quarter << 62)).view(np.float64)


def _cut(runs: Sequence[Keys]) -> list[list[Keys]]:
    """Cut sorted runs into parts; equal scores are never cut apart."""
    candidates = np.sort(np.concatenate([run[::_STEP] for run in runs]))
    cuts = np.unique(candidates[_PART // _STEP :: _PART // _STEP] | 3)
    edges = [[0, *run.searchsorted(cuts, side="right"), run.size] for run in runs]
    parts = [
        [run[at[i] : at[i + 1]] for run, at in zip(runs, edges, strict=True)]
        for i in range(cuts.size + 1)
    ]
    return [part for part in parts if any(run.size for run in part)]


def _merged(runs: Sequence[Keys]) -> tuple[Keys, list[int]]:
    """Sort the keys of a part; count its distinct scores, and samples of each kind."""
    keys = np.concatenate(runs)
    if len(runs) > 1:
        keys.sort()
    kind = keys.astype(np.uint8) & 3
    tally = [int(np.count_nonzero(kind == one)) for one in range(3)]
    return keys, [1 + int(np.count_nonzero(_differ(keys))), *tally]


def _differ(keys: Keys) -> NDArray[np.bool_]:
    """Whether the score of a key is another than the next one's."""
    return (keys[1:] ^ keys[:-1]) > 3
