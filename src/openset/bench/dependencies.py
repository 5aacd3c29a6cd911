"""What cells depend on besides the study: code from elsewhere, and files of data.

A key holds hashes of them, so that a cell is done again after one has changed.
"""

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from openset import _plugins, datasets
from openset._version import __version__

_FEW, _END = 1000, 1 << 16  # of so many files the last bytes are read as well


def needs(
    used: Mapping[str, Any], data: Iterable[str] = (), base: Path = Path()
) -> dict[str, str]:
    """Return the version, and what else may change: plug-ins and data in files.

    Of plug-ins among detectors, methods, metrics and data sets it is ``module:Name``
    and a hash of their code, of files and folders of data a hash of their content.
    """
    names = [name for name in data if name]
    used = {n: datasets.info(n) for n in names if datasets.is_name(n)} | {**used}
    plugins = {n: one for n, one in used.items() if not _plugins.is_built_in(one)}
    files = {n: content(base / n) for n in names if not datasets.is_name(n)}
    own = {
        name: f"{_plugins.reference(one)} {_hash(one)}" for name, one in plugins.items()
    }
    return {"openset": __version__} | own | files


@cache  # what was imported stays as it was, whatever happens to its file
def _hash(plugin: Any) -> str:
    """Hash the module of a plug-in: its helpers count, too."""
    function = getattr(plugin, "function", plugin)
    places: tuple[Any, ...] = (inspect.getmodule(function), function)
    for one in places:
        with suppress(OSError, TypeError):  # a notebook is no file
            return hashlib.sha256(inspect.getsource(one).encode()).hexdigest()[:12]
    return "unknown"


def content(path: Path) -> str:
    """Hash the names, sizes and ends of a file, or of all files of a folder.

    The end of a ``.npz`` has checksums of all its arrays.
    """
    files = [path, *sorted(path.rglob("*"))]
    digest = hashlib.sha256()
    for file in (one for one in files if one.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(path.parent)} {size}\n".encode())
        if len(files) <= _FEW:
            with file.open("rb") as stream:
                stream.seek(max(size - _END, 0))
                digest.update(stream.read())
    return digest.hexdigest()[:12]
