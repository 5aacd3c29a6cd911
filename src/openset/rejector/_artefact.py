"""A rejector as a folder: ``manifest.json`` and a ``.npz``, hashed, no pickle.

Schema 1::

    manifest.json     kind, schema, detector {name, params, widths, classes [{name,
                      class, distribution}]}, threshold, classes, report,
                      files {state-HASH.npz: {bytes, sha256}}, versions,
                      sha256 (of the manifest without this entry)
    state-HASH.npz    state.<name> (what the detector learnt), reference.<side>
                      (quantiles of the calibration scores)
    .lock             held while a rejector is saved

The name of the arrays' file has the start of its own hash (earlier files are called
``state.npz``). So a new rejector is written beside the old one, and the rename of its
manifest replaces the old one in a single step.
"""

import hashlib
import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _xp
from openset._types import ArtefactError
from openset._version import __version__
from openset.detectors import Fitted, remade
from openset.thresholds import Report, Threshold

KIND = "openset.Rejector"
SCHEMA = 1
MANIFEST = "manifest.json"
_LOCK = ".lock"
_CALLER = "Rejector.load"
_STATE = re.compile(r"state(-[0-9a-f]{16})?\.npz")
# Files we write, under their own or a temporary name (see _io.replacing).
_OURS = re.compile(rf"{re.escape(_LOCK)}|\.?({_STATE.pattern}|manifest\.json)(\..+)?")


@dataclass(frozen=True, eq=False)
class Opened:
    """An artefact whose manifest and hashes are right; arrays are still on disk."""

    fitted: Callable[[], Fitted]
    reference: Callable[[], dict[str, NDArray[Any]]]
    threshold: Threshold
    classes: tuple[str, ...]
    report: Report


def write(
    folder: Path,
    *,
    fitted: Fitted,
    threshold: Threshold,
    classes: tuple[str, ...],
    reference: Mapping[str, NDArray[Any]],
    report: Report,
) -> Path:
    """Write the rejector; until the last step, the folder holds what it held before."""
    check_destination(folder, caller="Rejector.save", name="folder")
    origins = fitted.detector.origins(caller="Rejector.save")
    arrays = {f"state.{n}": _xp.to_numpy(a) for n, a in fitted.state.items()}
    arrays |= {f"reference.{n}": a for n, a in reference.items()}
    content = _io.npz_bytes(folder, arrays)
    digest = hashlib.sha256(content).hexdigest()
    state = f"state-{digest[:16]}.npz"
    manifest: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "detector": {
            "name": fitted.detector.name,
            "params": fitted.detector.params(),
            "widths": dict(fitted.widths),
            "classes": origins,
        },
        "threshold": threshold.to_dict(),
        "classes": list(classes),
        "report": report.to_dict(),
        "files": {state: {"bytes": len(content), "sha256": digest}},
        "versions": {
            "openset": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    manifest["sha256"] = _digest(manifest)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with _io.locked(folder / _LOCK) as is_alone:
        try:
            # Whoever has opened this very rejector may still have to read its arrays.
            if not _holds(folder / state, content):
                _io.write(folder / state, lambda stream: stream.write(content))
            _io.write(folder / MANIFEST, lambda stream: stream.write(text.encode()))
        finally:
            if is_alone:
                _tidy(folder)
    return folder


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _tidy(folder: Path) -> None:
    """Remove the arrays of earlier rejectors, and what a killed save left behind."""
    used = {_LOCK, MANIFEST}
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        used |= json.loads((folder / MANIFEST).read_bytes())["files"].keys()
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in used:
            path.unlink()


def check_destination(folder: Path, *, caller: str, name: str) -> None:
    """Refuse a place that holds something else than a rejector."""
    if not folder.exists() or (folder / MANIFEST).exists():
        return
    if not folder.is_dir() or not all(
        _OURS.fullmatch(p.name) for p in folder.iterdir()
    ):
        msg = _check.must(
            f"new, or a folder with {MANIFEST}",
            caller=caller,
            name=name,
            got=f"{folder}, which holds something else",
        )
        raise ValueError(msg)


def read(folder: Path, *, plugins: Sequence[str] = ()) -> Opened:
    """Check an artefact and open it; arrays are read when they are asked for."""
    text = _text(folder)
    while True:
        try:
            return _opened(folder, text, plugins=plugins)
        except ArtefactError:
            # A rejector that is saved meanwhile takes the arrays of this one away.
            before, text = text, _text(folder)
            if text == before:
                raise


def _opened(folder: Path, text: bytes, *, plugins: Sequence[str]) -> Opened:
    manifest = _manifest(folder / MANIFEST, text)
    try:
        state = folder / _state_name(manifest["files"])
        checked = _stamp(state)
        _check_file(state, manifest["files"][state.name])
        written = manifest["detector"]
        recipe = remade(
            written["name"],
            written["params"],
            written.get("classes", []),
            caller=_CALLER,
            path=folder / MANIFEST,
            plugins=plugins,
        )
        widths = dict(written["widths"])
        threshold = Threshold.from_dict(manifest["threshold"])
        opened = Report.from_dict(manifest["report"], threshold)
        classes = tuple(str(name) for name in manifest["classes"])
    except ArtefactError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        msg = f"{_CALLER}: {folder / MANIFEST} is damaged: {error!r}"
        raise ArtefactError(msg) from error

    def arrays(prefix: str) -> dict[str, NDArray[Any]]:
        found = None
        with suppress(FileNotFoundError):
            found = _io.read_npz(_CALLER, state)
        if found is None and _text(folder) == text:
            msg = f"{_CALLER}: {state} was removed after the rejector was opened"
            raise FileNotFoundError(msg)
        if found is None or _stamp(state) != checked:
            msg = (  # the threshold is not for other arrays
                f"{_CALLER}: {state} was replaced after the rejector was opened, and "
                f"before its arrays were read. Load it again"
            )
            raise ArtefactError(msg)
        return {
            name.removeprefix(prefix): array
            for name, array in found.items()
            if name.startswith(prefix)
        }

    def fitted() -> Fitted:
        return Fitted(detector=recipe, state=arrays("state."), widths=widths)

    return Opened(
        fitted=fitted,
        reference=lambda: arrays("reference."),
        threshold=threshold,
        classes=classes,
        report=opened,
    )


def _text(folder: Path) -> bytes:
    """Return the bytes of the manifest."""
    path = folder / MANIFEST
    if not folder.exists():
        msg = f"{_CALLER}: no such folder: {folder}"
        raise FileNotFoundError(msg)
    if not path.is_file():
        msg = f"{_CALLER}: {folder} is not a rejector: it has no {MANIFEST}"
        raise ArtefactError(msg)
    return path.read_bytes()


def _state_name(files: Mapping[str, Any]) -> str:
    """Return the name of the arrays' file; a name that leads elsewhere is refused."""
    (name,) = files
    if not _STATE.fullmatch(name):
        msg = f"files must name state-HASH.npz, got {name!r}"
        raise ValueError(msg)
    return name


def _manifest(path: Path, text: bytes) -> dict[str, Any]:
    """Return the manifest, checked."""
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{_CALLER}: {path} is damaged or truncated: not JSON ({error})"
        raise ArtefactError(msg) from error
    kind = manifest.get("kind") if isinstance(manifest, dict) else None
    if kind != KIND:
        msg = f"{_CALLER}: {path} must be of kind {KIND}, got {kind!r}"
        raise ArtefactError(msg)
    # Before the hash: a newer schema may hash otherwise, and "upgrade" is the answer.
    schema = manifest.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        msg = f"{_CALLER}: {path} must have a schema number, got {schema!r}"
        raise ArtefactError(msg)
    if schema > SCHEMA:
        msg = (
            f"{_CALLER}: {path} is of schema {schema}, newer than {SCHEMA}, the newest "
            f"this version of openset reads. Upgrade openset"
        )
        raise ArtefactError(msg)
    stored = manifest.pop("sha256", None)
    if stored != _digest(manifest):
        msg = (
            f"{_CALLER}: {path} was changed after it was written: its sha256 does not "
            f"match its content. Calibrate again, or restore the file"
        )
        raise ArtefactError(msg)
    wanted = {"detector", "threshold", "classes", "report", "files", "versions"}
    missing = sorted(wanted - manifest.keys())
    if missing:
        msg = f"{_CALLER}: {path} lacks {', '.join(missing)}"
        raise ArtefactError(msg)
    return manifest


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from one that took its name; None without a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check_file(path: Path, written: Mapping[str, Any]) -> None:
    if not path.exists():
        msg = f"{_CALLER}: {path} is missing. Restore it, or calibrate again"
        raise ArtefactError(msg)
    size = path.stat().st_size
    if size != written["bytes"]:
        what = "truncated" if size < written["bytes"] else "changed"
        msg = (
            f"{_CALLER}: {path} is {what}: {size} bytes where the manifest says "
            f"{written['bytes']}. Restore it, or calibrate again"
        )
        raise ArtefactError(msg)
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != written["sha256"]:
        msg = (
            f"{_CALLER}: {path} was changed after it was written: its sha256 is not "
            f"that of the manifest. Restore it, or calibrate again"
        )
        raise ArtefactError(msg)


def _digest(manifest: Mapping[str, Any]) -> str:
    # NaN, which we never write, has a hash as well: that of a changed file.
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
