"""Checks that the data files of a study have not changed since it was started."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from openset import _io, datasets
from openset._types import ArtefactError
from openset.bench._plan import OutputsSource, Plan, folder_of
from openset.bench._study import DATA_KEYS, NetworkModel, ProtocolFile

_FILE = "data.json"
_WHOLE = 1 << 30  # bytes: more than that is not read completely
_TAIL = 1 << 16  # then only this much of each file; a .npz lists its checksums there


def check(run: Path, made: Plan, base: Path) -> None:
    """Compare data files with those of earlier runs; raise if results would be mixed.

    Files are compared by size and time first, and by content if these differ. Data
    sets with a name are left out: their files were checked when they were downloaded.
    """
    old = _read(run / _FILE)
    found = dict(old)
    sources = {id(task.source): task.source for task in made.tasks}.values()
    for name in sorted({name for source in sources for name in _names(source)}):
        files = _files(base / name)
        stamp = _stamp(files)
        if not files or old.get(name, {}).get("stamp") == stamp:
            continue
        found[name] = {"stamp": stamp, "content": _content(files)}
        if name in old and old[name].get("content") != found[name]["content"]:
            mine = [source for source in sources if name in _names(source)]
            _refuse_mixing(run, name, made, mine)
    if found != old:
        _io.put(run / _FILE, json.dumps(found, indent=1, sort_keys=True))


def _refuse_mixing(
    run: Path, name: str, made: Plan, sources: Iterable[OutputsSource]
) -> None:
    """Raise if networks or cells were made from the data that are gone."""
    ids = {id(source) for source in sources}
    n_cells = sum(
        id(task.source) in ids and (run / "cells" / f"{task.id}.json").exists()
        for task in made.tasks
    )
    n_networks = sum(
        source.saved is None and folder_of(source, run, run).exists()
        for source in sources
    )
    if n_cells or n_networks:
        msg = (
            f"bench: {name} must not change after {run} was started, got another "
            f"content: {n_cells} cells and {n_networks} networks were computed "
            "from the old one, and would be mixed with new ones. Choose another "
            "--out"
        )
        raise ValueError(msg)


def _names(source: OutputsSource) -> list[str]:
    """Return the files and folders a source reads, as the study names them."""
    if source.saved is not None:
        return [source.saved.path]
    entry = source.entry
    given = [str(getattr(entry, key, "")) for key in DATA_KEYS]
    if isinstance(source.model, NetworkModel):
        given.append(source.model.negatives)
    names = [name for name in given if name and not datasets.is_name(name)]
    return names + ([entry.path] if isinstance(entry, ProtocolFile) else [])


def _files(path: Path) -> list[tuple[str, Path]]:
    """Return names and paths of a file, or of all files of a folder."""
    if not path.is_dir():
        return [(path.name, path)] if path.is_file() else []
    found = sorted(one for one in path.rglob("*") if one.is_file())
    return [(one.relative_to(path).as_posix(), one) for one in found]


def _stamp(files: list[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        stat = path.stat()
        digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _content(files: list[tuple[str, Path]]) -> str:
    sizes = [path.stat().st_size for _, path in files]
    is_whole = sum(sizes) <= _WHOLE
    digest = hashlib.sha256()
    for (name, path), size in zip(files, sizes, strict=True):
        digest.update(f"{name}\0{size}\0".encode())
        with path.open("rb") as stream:
            if not is_whole:
                stream.seek(max(size - _TAIL, 0))
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        msg = f"bench: {path} is damaged ({error}). Choose another --out"
        raise ArtefactError(msg) from error
