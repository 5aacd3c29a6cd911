"""A rejector as a folder: ``manifest.json``, which people can read, and its arrays.

::

    manifest.json     kind, schema, detector {name, params, classes, widths, names},
                      threshold, classes, report, sets, input_step,
                      state {file, sha256}, versions, sha256 (of all other entries)
    state-HASH.npz    state.* (what the detector learnt), seen.* (hashes of the samples
                      it was fitted on), reference.* (what is kept of the samples of
                      the calibration)

The arrays are written beside those of an earlier rejector, under a name of their own.
Then the manifest is replaced in one step: there is always a complete rejector.
"""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openset import _check, _io, _npz, _optional, _plugins
from openset._types import ArtefactError
from openset._version import __version__
from openset.detectors import Fitted
from openset.rejector.sets import SetRule
from openset.thresholds import Report, Threshold

if TYPE_CHECKING:
    from openset.rejector.rejector import Rejector  # it imports us

MANIFEST = "manifest.json"
_KIND = "openset.Rejector"
_CALLER = "Rejector.load"
_STATE = ("state-", ".state-", f".{MANIFEST}.")  # arrays, and what was not completed


def save(rejector: "Rejector", folder: Path) -> Path:
    """Write both files, and remove the arrays of the rejector that was there."""
    check_destination(folder)
    about, arrays = rejector.fitted.parts(caller="Rejector.save")
    arrays |= {f"reference.{name}": one for name, one in rejector.reference.items()}
    stream = io.BytesIO()
    _npz.save(stream, arrays)
    content = stream.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    name = _state_file(digest)
    manifest: dict[str, Any] = {
        "kind": _KIND,
        "schema": 1,
        "detector": about,
        "threshold": rejector.threshold.to_dict(),
        "classes": list(rejector.classes),
        "report": rejector.report.to_dict(),
        "sets": None if rejector.sets is None else asdict(rejector.sets),
        "input_step": rejector.input_step,
        "versions": {"openset": __version__, "numpy": np.__version__},
        "state": {"file": name, "sha256": digest},
    }
    manifest["sha256"] = _digest(manifest)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    # Of the rejector that is replaced, and of saves that were killed.
    old = [one for one in folder.glob("*") if one.name.startswith(_STATE)]
    _io.put(folder / name, content)
    _io.put(folder / MANIFEST, text + "\n")
    for path in old:
        if path.name != name:
            path.unlink(missing_ok=True)
    return folder


def check_destination(
    folder: str | Path, *, caller: str = "Rejector.save", name: str = "folder"
) -> None:
    """Refuse a folder that holds something other than a rejector."""
    folder = Path(folder)
    others = [folder] if folder.is_file() else folder.glob("*")
    is_rejector = (folder / MANIFEST).exists()
    if not is_rejector and any(not one.name.startswith(_STATE) for one in others):
        rule = f"a new folder, or one with a rejector ({MANIFEST})"
        _check.fail(caller, name, rule, f"{folder}, which holds something else")


def load(folder: str | Path, plugins: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a rejector; raise ArtefactError for a damaged one."""
    for one in plugins:  # what is wrong with them is no damage of the file
        _plugins.imported(one, caller=_CALLER, name="plugins")
    try:
        manifest = json.loads(read(folder, MANIFEST))
        _npz.need_kind(_CALLER, str(folder), manifest, _KIND)
        _need_hash(folder, MANIFEST, manifest.pop("sha256", None), _digest(manifest))
        digest, sets = manifest["state"]["sha256"], manifest["sets"]
        name = _state_file(digest)
        content = read(folder, name)
        _need_hash(folder, name, digest, hashlib.sha256(content).hexdigest())
        arrays, _ = _npz.load(f"{folder}/{name}", io.BytesIO(content))
        where: Any = {"caller": _CALLER, "path": folder, "plugins": plugins}
        threshold = Threshold.from_dict(manifest["threshold"])
        reference = _npz.group(arrays, "reference")
        return {
            "fitted": Fitted.of_parts(manifest["detector"], arrays, **where),
            "threshold": threshold,
            "report": Report.from_dict(manifest["report"], threshold),
            "classes": tuple(map(str, manifest["classes"])),
            "reference": {"known": reference["known"], **reference},
            "sets": None if sets is None else SetRule(**sets),
            "input_step": str(manifest["input_step"]),
        }
    except FileNotFoundError as error:
        error.add_note(f"{_CALLER}: {folder} is not a rejector, or not all of one")
        raise
    except (ArtefactError, ImportError):
        raise
    except Exception as error:  # whatever damage and forgery make of the entries
        msg = f"{_CALLER}: {folder} is damaged ({error!r}). Calibrate again"
        raise ArtefactError(msg) from error


def _need_hash(folder: str | Path, name: str, wanted: str | None, found: str) -> None:
    if wanted != found:
        rule, got = "as it was written", "another sha256 than the manifest says"
        remedy = "Restore it, or calibrate again"
        _check.fail(_CALLER, f"{folder}/{name}", rule, got, remedy, ArtefactError)


def _state_file(digest: str) -> str:
    return f"state-{digest[:16]}.npz"


def read(folder: str | Path, name: str) -> bytes:
    """Return the bytes of a file in a folder, or below a URL that fsspec knows."""
    if isinstance(folder, str) and "://" in folder:
        fsspec = _optional.optional("fsspec", "cloud")
        with fsspec.open(f"{folder.rstrip('/')}/{name}", "rb") as stream:
            return bytes(stream.read())
    return Path(folder, name).read_bytes()


def _digest(manifest: Mapping[str, Any]) -> str:
    # NaN, which we never write, has a hash as well: that of a changed file.
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
