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
ABOUT = ("classes", "layers", "input_step")
_CALLER = "Outputs.load"
_META = "meta.json"
_FILES = {_META, *(f"{name}.npy" for name in ARRAYS)}
_TABLES = {".csv", ".parquet"}


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
    if path.suffix in _TABLES and path.is_file():
        rule, got = "a .npz file or a folder of .npy files", f"a {path.suffix} file"
        remedy = (
            "Read its columns, and save them: Outputs(logits=..., labels=...)"
            ".save('outputs.npz'); or give a folder of such files to openset predict"
        )
        _check.fail(_CALLER, str(path), rule, got, remedy, ArtefactError)
    found = _mapped(path) if path.is_dir() else _npz.load(_CALLER, path)[0]
    if "logits" not in found and "features" not in found:
        have = ", ".join(sorted(found)) or "neither"
        msg = f"{_CALLER}: {path} must hold logits or features, got {have}"
        if "known" in found:
            msg += ". These are scores already: see openset evaluate, or Scores.load"
        raise ArtefactError(msg)
    return {
        name: _check.frozen(one) if isinstance(one, np.ndarray) else one
        for name, one in found.items()
        if name in (*ARRAYS, *ABOUT)
    }


def _mapped(path: Path) -> dict[str, Any]:
    """Return memory maps of the arrays in a folder, and what ``meta.json`` says."""
    found: dict[str, Any] = {}
    for file in (path / f"{name}.npy" for name in ARRAYS):
        if not file.exists():
            continue
        try:
            found[file.stem] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            msg = (
                f"{_CALLER}: {file} is damaged, truncated or holds pickled objects "
                f"({error}). Write it again"
            )
            raise ArtefactError(msg) from error
    if not (path / _META).exists():  # folders of others may have none
        return found
    try:
        meta = dict(json.loads((path / _META).read_bytes()))
        return found | {name: meta[name] for name in ABOUT if name in meta}
    except (ValueError, TypeError) as error:
        msg = f"{_CALLER}: {path / _META} is damaged ({error!r})"
        raise ArtefactError(msg) from error
