"""Outputs of a network in one file, which others can score without the network."""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openset import _check, _io
from openset._types import ArtefactError
from openset.bench.named._definition import Benchmark
from openset.outputs import Outputs

_MANIFEST = "manifest.json"
_KIND, _SCHEMA = "openset.NamedOutputs", 1


def pack(benchmark: Benchmark, outputs: str | Path, path: str | Path) -> Path:
    """Write the files of a folder of outputs, with a manifest, to a ``.tar`` file.

    The manifest comes first; it has the number of samples and the SHA-256 of each file.
    Files that are not part of the benchmark are left out, and so are missing data sets.
    The same files always give the same bytes.
    """
    folder, path = Path(outputs), Path(path)
    _check.ending("named.pack", path, [".tar"])
    there = [name for name in _names(benchmark) if (folder / name).is_file()]
    if "known.npz" not in there or len(there) == 1:
        msg = _check.must(
            "a folder with known.npz and other .npz files of the benchmark",
            caller="named.pack",
            name="outputs",
            got=str(folder),
        )
        raise FileNotFoundError(msg)
    entries = {
        name: {
            "n": len(Outputs.load(folder / name)),
            "sha256": _io.sha256(folder / name),
        }
        for name in there
    }
    manifest = {
        "kind": _KIND,
        "schema": _SCHEMA,
        "benchmark": benchmark.name,
        "model": folder.resolve().name,
        "files": entries,
    }
    text = json.dumps(manifest, indent=1).encode()
    with _io.replacing(path) as temporary, tarfile.open(temporary, "w") as tar:
        tar.addfile(_member(_MANIFEST, len(text)), io.BytesIO(text))
        for name in there:
            file = folder / name
            with file.open("rb") as stream:
                tar.addfile(_member(name, file.stat().st_size), stream)
    return path


@contextmanager
def folder_of(benchmark: Benchmark, outputs: str | Path) -> Iterator[Path]:
    """Yield a folder of outputs: `outputs` itself, or the content of a ``.tar`` file.

    Every file is compared with the manifest before anything is scored.
    """
    path = Path(outputs)
    if path.suffix != ".tar":
        yield path
        return
    if not path.is_file():
        msg = f"named.folder_of: no such file: {path}"
        raise FileNotFoundError(msg)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            with tarfile.open(path) as tar:
                model = _unpack(benchmark, tar, Path(temporary), path)
        except tarfile.TarError as error:
            msg = f"named.folder_of: {path} is not a .tar file of outputs ({error})"
            raise ArtefactError(msg) from error
        yield Path(temporary) / model


def _unpack(
    benchmark: Benchmark, tar: tarfile.TarFile, folder: Path, path: Path
) -> str:
    """Write the files that the manifest names to a folder named after the model."""
    manifest = _manifest(tar, path)
    if manifest["benchmark"] != benchmark.name:
        msg = (
            f"named.folder_of: {path} must hold outputs of {benchmark.name}, got "
            f"{manifest['benchmark']}"
        )
        raise ValueError(msg)
    # The name is that of a folder below: no path, whatever the file says.
    model = Path(str(manifest["model"])).name or "outputs"
    allowed = _names(benchmark)
    for name, entry in manifest["files"].items():
        content = _content(tar, name) if name in allowed else None
        if content is None or hashlib.sha256(content).hexdigest() != entry["sha256"]:
            msg = (
                f"named.folder_of: {path} is damaged: {name} is not what its manifest "
                "says"
            )
            raise ArtefactError(msg)
        _io.put(folder / model / name, content)
    return model


def _manifest(tar: tarfile.TarFile, path: Path) -> dict[str, Any]:
    text = _content(tar, _MANIFEST)
    try:
        found = json.loads(text or b"")
        is_ours = (found["kind"], found["schema"]) == (_KIND, _SCHEMA)
        entries = all("sha256" in entry for entry in found["files"].values())
        is_ours &= entries and {"benchmark", "model"} <= set(found)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        msg = f"named.folder_of: {path} has no {_MANIFEST} of openset bench --pack"
        raise ArtefactError(msg)
    return dict(found)


def _content(tar: tarfile.TarFile, name: str) -> bytes | None:
    try:
        stream = tar.extractfile(name)
    except KeyError:
        return None
    return None if stream is None else stream.read()


def _names(benchmark: Benchmark) -> list[str]:
    return [f"{name}.npz" for name in ("train", *benchmark.files())]


def _member(name: str, size: int) -> tarfile.TarInfo:
    """Describe a file without owner and time, so that packing is reproducible."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member
