"""Find samples that two data sets share under different names."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.datasets._samples import Rows
from openset.datasets.lazy_inputs import ImageFiles

_CHUNK = 4096  # samples hashed at a time
_FILES = 256  # image files that are looked for: reading all would take too long
_TOLERATED = 0.01  # short texts, and a few images on the web, are the same by chance


def need_no_copies(
    caller: str, part: str, inputs: Any, rows: Rows, *, tested: Any, tested_rows: Rows
) -> None:
    """Raise if more than one in a hundred tested unknown samples are in another part.

    Arrays and texts are compared as a whole, of image files some. A copy with other
    pixels, such as a resized one, is not found.
    """
    found, n = _shared(inputs, rows, tested, tested_rows)
    if found > _TOLERATED * n:
        msg = _check.must(
            "other samples than the unknown ones of the test",
            caller=caller,
            name=part,
            got=f"copies of {found} of {n} of them",
            remedy="Take another data set, or leave these samples out",
        )
        raise ValueError(msg)


def _shared(inputs: Any, rows: Rows, tested: Any, tested_rows: Rows) -> tuple[int, int]:
    """Return how many tested samples are among the inputs, and how many were tried."""
    if isinstance(inputs, ImageFiles) and isinstance(tested, ImageFiles):
        return _shared_files(inputs.take(rows).paths, tested.take(tested_rows).paths)
    arrays = isinstance(inputs, np.ndarray) and isinstance(tested, np.ndarray)
    if arrays and inputs.shape[1:] == tested.shape[1:]:
        if inputs.dtype.kind in "OUT" and tested.dtype.kind in "OUT":
            texts = set(map(str, inputs[rows]))
            found = sum(str(one) in texts for one in tested[tested_rows])
            return found, tested_rows.size
        if inputs.dtype == tested.dtype and inputs.dtype.kind in "biuf":
            is_in = np.isin(_hashes(tested, tested_rows), _hashes(inputs, rows))
            return int(np.count_nonzero(is_in)), tested_rows.size
    return 0, 0


def _hashes(inputs: NDArray[Any], rows: Rows) -> NDArray[np.uint64]:
    """Return a number for each sample; equal samples have equal ones.

    Two different samples have equal ones with a probability of at most 2**-32. That
    needs words of half the length of the sum: modulo 2**64, the first bits of a word of
    64 meet the last bits of a weight only, and the words of float64 that are small
    integers have nothing else.
    """
    n_bytes = inputs[:1].nbytes
    n_words = -(-n_bytes // 4)
    rng = np.random.default_rng(0)
    weights = rng.integers(1 << 64, size=n_words, dtype=np.uint64)
    found = np.empty(rows.size, np.uint64)
    for start in range(0, rows.size, _CHUNK):
        chunk = np.ascontiguousarray(inputs[rows[start : start + _CHUNK]])
        padded = np.zeros((len(chunk), n_words * 4), np.uint8)
        padded[:, :n_bytes] = chunk.view(np.uint8).reshape(len(chunk), n_bytes)
        # Integers, modulo 2**64: a sum of floats would depend on its order.
        np.einsum(
            "ij,j->i",
            padded.view(np.uint32),
            weights,
            out=found[start : start + _CHUNK],
        )
    return found


def _shared_files(paths: tuple[str, ...], tested: tuple[str, ...]) -> tuple[int, int]:
    some = tested[:: -(-len(tested) // _FILES)]
    sizes = {path: Path(path).stat().st_size for path in some if Path(path).is_file()}
    wanted = set(sizes.values())
    by_size: dict[int, list[Path]] = {}
    for other in map(Path, paths):
        if other.is_file() and (size := other.stat().st_size) in wanted:
            by_size.setdefault(size, []).append(other)
    found = 0
    for path, size in sizes.items():
        content = Path(path).read_bytes() if size in by_size else b""
        found += any(one.read_bytes() == content for one in by_size.get(size, ()))
    return found, len(sizes)
