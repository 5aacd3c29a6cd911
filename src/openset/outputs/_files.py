"""Files of outputs: a ``.npz`` file, or a folder of ``.npy`` files."""

import json
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _locks, _npz
from openset._types import ArtefactError
from openset.outputs._fields import ABOUT, ARRAYS

_META = "meta.json"
# Arrays of outputs that replaced others in their folder; see `put_folder`.
_FILE = re.compile(rf"({'|'.join(ARRAYS)})-[0-9a-f]{{8}}\.npy")


def write(
    path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]
) -> None:
    """Write arrays and what is no array, for :func:`read`."""
    if path.suffix == ".npz":
        texts = {n: np.array(v, dtype=np.str_) for n, v in about.items() if v}
        _npz.write(path, {**arrays, **texts})
        return
    if path.suffix:
        rule, got = "'.npz', or none for a folder of .npy files", repr(path.suffix)
        _check.fail("Outputs.save", "ending", rule, got)
    with _io.replacing_folder(path, put=put_folder) as temporary:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        meta = {"kind": "openset.Outputs", "schema": 1, **about}
        (temporary / _META).write_text(json.dumps(meta), encoding="utf-8")


def is_outputs(names: Iterable[str]) -> bool:
    """Whether a folder with files of these names holds outputs.

    Examples
    --------
    >>> is_outputs(["meta.json", "logits-0a1b2c3d.npy"]), is_outputs(["a.npz"])
    (True, False)
    """
    kinds = ("logits", "features")
    usual = {f"{kind}.npy" for kind in kinds}
    return any(
        name in usual or (name.startswith(kinds) and _FILE.fullmatch(name))
        for name in names
    )


def read(path: Path) -> dict[str, Any]:
    """Return the fields of outputs: of a folder memory maps, of a file arrays."""
    if not path.exists():
        msg = f"Outputs.load: no such file or folder: {path}"
        raise FileNotFoundError(msg)
    if path.is_dir():
        return _read_folder(path)
    try:
        arrays = _npz.read("Outputs.load", path)
    except ArtefactError as error:
        if path.suffix in {".npz", ".npy"}:
            raise
        raise ArtefactError(_wrong_format(path)) from error
    _need_logits_or_features(path, arrays)
    optional = (*ARRAYS, *ABOUT)
    arrays = _npz.pick("Outputs.load", path, arrays, required=(), optional=optional)
    return {name: _check.frozen(array) for name, array in arrays.items()}


def _wrong_format(path: Path) -> str:
    remedy = "openset extract and Outputs.save write such files"
    if path.suffix in {".csv", ".parquet"}:
        remedy = (
            "Read its columns, and save them: "
            "Outputs(logits=..., labels=...).save('outputs.npz')"
        )
    if path.suffix == ".parquet":
        remedy += ". A folder of such files is read by openset score and predict"
    return _check.must(
        "a .npz file or a folder of .npy files",
        caller="Outputs.load",
        name=str(path),
        got=f"a {path.suffix} file" if path.suffix else "another kind of file",
        remedy=remedy,
    )


def _read_folder(path: Path) -> dict[str, Any]:
    text = _meta(path)
    while True:
        try:
            return _mapped(path, text)
        except ArtefactError:
            # Outputs that are saved meanwhile take the files of these away.
            before, text = text, _meta(path)
            if text == before:
                raise


def _mapped(path: Path, text: bytes | None) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    about, files = _described(path / _META, text)
    for name in ARRAYS:
        file = path / files.get(name, f"{name}.npy")
        if name not in files and (files or not file.exists()):
            continue
        try:
            arrays[name] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            msg = (
                f"Outputs.load: {file} is damaged, truncated or holds pickled "
                f"objects ({error}). Write it again"
            )
            raise ArtefactError(msg) from error
    _need_logits_or_features(path, arrays)
    return arrays | about


def _need_logits_or_features(path: Path, arrays: dict[str, Any]) -> None:
    if "logits" not in arrays and "features" not in arrays:
        have = ", ".join(sorted(arrays)) or "neither"
        msg = f"Outputs.load: {path} must hold logits or features, got {have}"
        if "known" in arrays:
            msg += ". These are scores already: see openset evaluate, or Scores.load"
        raise ArtefactError(msg)


def _meta(path: Path) -> bytes | None:
    """Return what describes a folder of arrays; folders of others may not have it."""
    try:
        return (path / _META).read_bytes()
    except FileNotFoundError:
        return None


def _described(path: Path, text: bytes | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what is no array, and files of arrays whose names are not usual."""
    if text is None:
        return {}, {}
    try:
        meta = json.loads(text)
        about = {"classes": meta["classes"], "layers": meta.get("layers", ())}
        about["input_step"] = meta.get("input_step", "")
        files = dict(meta.get("files", {}))
        # A name that leads elsewhere is refused.
        wrong = [n for n, f in files.items() if not f.startswith(f"{n}-")]
        wrong += [name for name, file in files.items() if not _FILE.fullmatch(file)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"Outputs.load: {path} is damaged ({error!r})"
        raise ArtefactError(msg) from error
    if wrong:
        msg = f"Outputs.load: {path} is damaged (wrong name of the file of {wrong[0]})"
        raise ArtefactError(msg)
    return about, files


def put_folder(folder: Path, path: Path) -> None:
    """Move a complete folder of arrays to `path`, which may exist already.

    If `path` is new, the folder is renamed. Otherwise its arrays are put next to the
    old ones under new names, and ``meta.json``, which lists them, is replaced by one
    rename. So there is no instant without outputs.
    """
    if not path.is_dir():
        _io.rename_folder(folder, path)
        return
    meta = json.loads((folder / _META).read_bytes())
    with _locks.locked(path / ".lock") as is_alone:
        mark = secrets.token_hex(4)
        arrays = [file for file in folder.glob("*.npy") if file.stem in ARRAYS]
        meta["files"] = {one.stem: f"{one.stem}-{mark}.npy" for one in arrays}
        for one in arrays:
            one.rename(path / meta["files"][one.stem])
        _io.put(path / _META, json.dumps(meta))
        if is_alone:
            _tidy(path, {*meta["files"].values()})
    shutil.rmtree(folder)


def _tidy(path: Path, used: set[str]) -> None:
    """Remove the arrays of earlier outputs, and what a killed save left behind."""
    usual = {f"{name}.npy" for name in ARRAYS}
    for file in path.iterdir():
        is_ours = file.name in usual or _FILE.fullmatch(file.name)
        if (is_ours and file.name not in used) or file.name.startswith(f".{_META}."):
            # Windows keeps files that are open; a later save removes them.
            with suppress(PermissionError):
                file.unlink()
