"""Files of outputs: a ``.npz`` file, or a folder of ``.npy`` files."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _npz
from openset._types import ArtefactError

PER_SAMPLE = ("logits", "features", "labels", "groups", "ids")
ARRAYS = (*PER_SAMPLE, "weight", "bias")
ABOUT = ("classes", "input_step")
_CALLER = "Outputs.load"
_META = "meta.json"
_FILES = {_META, *(f"{name}.npy" for name in ARRAYS)}


def write(
    path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]
) -> None:
    """Write arrays and what is no array, for :func:`read`."""
    if path.suffix == ".npz":
        texts = {n: np.array(v, dtype=np.str_) for n, v in about.items() if v}
        _npz.save(path, {**arrays, **texts})
        return
    with replacing(path, caller="Outputs.save") as folder:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        put_about(folder, about)


def put_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what is no array into a folder of arrays."""
    meta = {"kind": "openset.Outputs", "schema": 1, **about}
    _io.put(folder / _META, json.dumps(meta))


@contextmanager
def replacing(path: Path, *, caller: str) -> Iterator[Path]:
    """Yield a temporary folder that moves to `path` on success.

    Only a folder of other outputs is replaced.
    """
    if path.suffix:
        rule = "'.npz', or none for a folder of .npy files"
        _check.fail(caller, "ending", rule, repr(path.suffix))
    others = {one.name for one in path.iterdir()} - _FILES if path.is_dir() else None
    if others:
        rule = "a new folder, or one of outputs and nothing else"
        _check.fail(caller, str(path), rule, f"one with {min(others)}")
    with _io.replacing_folder(path) as temporary:
        yield temporary


def is_outputs(names: Iterable[str]) -> bool:
    """Whether a folder with files of these names holds outputs.

    Examples
    --------
    >>> is_outputs(["meta.json", "logits.npy"]), is_outputs(["a.npz"])
    (True, False)
    """
    return not {"logits.npy", "features.npy"}.isdisjoint(names)


def read(path: Path) -> dict[str, Any]:
    """Return the fields of outputs: of a folder memory maps, of a file arrays."""
    found = _mapped(path) if path.is_dir() else _npz.load(_CALLER, path)[0]
    if "logits" not in found and "features" not in found:
        remedy = "Scores are read by Scores.load, or openset evaluate"
        _check.fail(
            _CALLER,
            str(path),
            "a file with logits or features",
            ", ".join(sorted(found)) or "neither",
            remedy if "known" in found else "",
            ArtefactError,
        )
    return {
        name: _check.frozen(one) if isinstance(one, np.ndarray) else one
        for name, one in found.items()
        if name in (*ARRAYS, *ABOUT)
    }


def _mapped(path: Path) -> dict[str, Any]:
    """Return memory maps of the arrays in a folder, and what ``meta.json`` says."""
    found: dict[str, Any] = {}
    file = path / _META
    try:
        if file.exists():  # folders of others may have none
            found = dict(json.loads(file.read_bytes()))
        for file in path.glob("*.npy"):
            found[file.stem] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, TypeError, EOFError, OSError) as error:
        msg = f"{_CALLER}: {file} is damaged, or no array of numbers or text ({error})"
        raise ArtefactError(msg) from error
    return found
