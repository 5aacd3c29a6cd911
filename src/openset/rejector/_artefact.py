"""A rejector as a folder: ``manifest.json`` and a ``.npz``, hashed, no pickle.

Schema 1::

    manifest.json     kind, schema, detector {name, params, widths, classes [{name,
                      class, distribution}], layers (if the outputs named them)},
                      threshold, classes, report,
                      sets (if calibrated with prediction sets),
                      input_step (if inputs were perturbed along a gradient),
                      files {state-HASH.npz: {bytes, sha256}}, versions,
                      hmac (if saved with a key: HMAC-SHA256 of the entries above),
                      sha256 (of the manifest without this entry)
    state-HASH.npz    state.<name> (what the detector learnt), reference.<side>
                      (quantiles of the calibration scores), sample.features (of some
                      known calibration samples; may be missing)
    .lock             held while a rejector is saved

The name of the arrays' file has the start of its own hash (earlier files are called
``state.npz``). So a new rejector is written beside the old one, and the rename of its
manifest replaces the old one in a single step. In an object store, by its URL, there
are no locks, and the arrays of earlier rejectors stay.
"""

import hashlib
import hmac
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, _npz, _plugins, _xp
from openset._types import ArtefactError
from openset._version import __version__
from openset.detectors import Detector, Fitted, remade
from openset.outputs import Outputs, named_layers
from openset.rejector._parts import Parts
from openset.rejector._places import (
    MANIFEST,
    at,
    check_destination,
    checked_bytes,
    manifest_of,
    place_of,
    put,
    stamp,
    state_name,
)
from openset.rejector._sets import SetRule
from openset.thresholds import Report, Threshold

T = TypeVar("T")

KIND = "openset.Rejector"
SCHEMA = 1
_SHORTEST_KEY = 16  # bytes: shorter ones can be guessed
_CALLER = "Rejector.load"


def write(
    place: Path | str,
    *,
    fitted: Fitted,
    threshold: Threshold,
    classes: tuple[str, ...],
    reference: Mapping[str, NDArray[Any]],
    features: NDArray[Any] | None = None,
    report: Report,
    sets: SetRule | None = None,
    input_step: str = "",
    key: bytes | None = None,
) -> None:
    """Write the rejector; until the last step, the place holds what it held before."""
    _check_key("Rejector.save", key)
    check_destination(place, caller="Rejector.save", name="folder")
    origins = fitted.detector.origins(caller="Rejector.save")
    arrays = {f"state.{n}": _xp.to_numpy(a) for n, a in fitted.state.items()}
    arrays |= {f"reference.{n}": a for n, a in reference.items()}
    if features is not None:
        arrays["sample.features"] = features
    content = _npz.to_bytes(at(place, "state.npz"), arrays)
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
    if fitted.layers:
        manifest["detector"]["layers"] = [list(pair) for pair in fitted.layers]
    if sets is not None:
        manifest["sets"] = sets.to_dict()
    if input_step:
        manifest["input_step"] = input_step
    if key is not None:
        manifest["hmac"] = _signature(manifest, key)
    manifest["sha256"] = _digest(manifest)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    put(place, state, content, text.encode())


def read(
    place: Path | str, *, plugins: Sequence[str] = (), key: bytes | None = None
) -> Parts:
    """Check an artefact and open it; arrays are read when they are asked for.

    With a key or from a URL they are read at once, from the bytes that were checked.
    """
    _check_key(_CALLER, key)
    return _settled(place, lambda text: _opened(place, text, plugins=plugins, key=key))


def _settled(place: Path | str, use: Callable[[bytes], T]) -> T:
    """Use a manifest; if its arrays are not there, a newer one."""
    text = manifest_of(place)
    while True:
        try:
            return use(text)
        except ArtefactError:
            # A rejector that is saved meanwhile takes the arrays of this one away.
            before, text = text, manifest_of(place)
            if text == before:
                raise


def copy_rejector(folder: str | Path, to: Path) -> None:
    """Copy a rejector to a new folder on this machine, from a folder or a URL."""
    place = place_of(folder)

    def use(text: bytes) -> None:
        files = _manifest(at(place, MANIFEST), text, None)["files"]
        name = state_name(files)
        put(to, name, checked_bytes(at(place, name), files[name]), text)

    _settled(place, use)


def _opened(
    place: Path | str, text: bytes, *, plugins: Sequence[str], key: bytes | None
) -> Parts:
    path = at(place, MANIFEST)
    manifest = _manifest(path, text, key)
    for one in plugins:  # what is wrong with them is no damage of the file
        _plugins.imported(one, caller=_CALLER, name="plugins")
    try:
        name = state_name(manifest["files"])
        state = at(place, name)
        checked = stamp(state)
        content = checked_bytes(state, manifest["files"][name])
        written = manifest["detector"]
        recipe = remade(
            written["name"],
            written["params"],
            written.get("classes", []),
            caller=_CALLER,
            path=path,
            plugins=plugins,
        )
        widths = dict(written["widths"])
        layers = named_layers(written.get("layers", ()))
        threshold = Threshold.from_dict(manifest["threshold"])
        opened = Report.from_dict(manifest["report"], threshold)
        classes = tuple(str(name) for name in manifest["classes"])
        written_sets = manifest.get("sets")
        sets = None if written_sets is None else SetRule.from_dict(written_sets)
    except ArtefactError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        msg = f"{_CALLER}: {path} is damaged: {error!r}"
        raise ArtefactError(msg) from error
    verified = None
    if key is not None or isinstance(place, str):
        verified = _npz.read(_CALLER, state, content=content)
    arrays = _Arrays(place, text, state, checked, verified)
    return Parts(
        fitted=partial(arrays.fitted, recipe, widths, layers),
        threshold=threshold,
        classes=classes,
        reference=arrays.reference,
        report=opened,
        features=arrays.features,
        sets=sets,
        input_step=str(manifest.get("input_step", "")),
    )


@dataclass(frozen=True, eq=False)
class _Arrays:
    """The arrays of an artefact that was checked; read from disk when asked for.

    `checked` is the stamp of the file then; `verified` are the arrays themselves, if
    they were read at once.
    """

    place: Path | str
    text: bytes
    state: Path | str
    checked: tuple[int, ...] | None
    verified: dict[str, NDArray[Any]] | None

    def fitted(
        self,
        recipe: Detector,
        widths: dict[str, int | None],
        layers: tuple[tuple[str, int], ...],
    ) -> Fitted:
        state = self._named("state.")
        found = Fitted(detector=recipe, state=state, widths=widths, layers=layers)
        _check_state(found, self.state)
        return found

    def reference(self) -> dict[str, NDArray[Any]]:
        found = self._named("reference.")
        _check_reference(found, self.state)
        return found

    def features(self) -> NDArray[Any] | None:
        found = self._named("sample.").get("features")
        if found is not None and (found.ndim != 2 or found.dtype.kind != "f"):
            msg = (
                f"{_CALLER}: {self.state} must hold features as rows of numbers, got "
                f"{found.dtype}{found.shape}. Calibrate again"
            )
            raise ArtefactError(msg)
        return found

    def _named(self, prefix: str) -> dict[str, NDArray[Any]]:
        found = self.verified
        if found is None:
            found = _read_later(self.place, self.text, self.state, self.checked)
        return {
            name.removeprefix(prefix): array
            for name, array in found.items()
            if name.startswith(prefix)
        }


def _read_later(
    place: Path | str, text: bytes, state: Path | str, checked: tuple[int, ...] | None
) -> dict[str, NDArray[Any]]:
    """Read the arrays, if they are still those that were checked."""
    found = None
    with suppress(FileNotFoundError):
        found = _npz.read(_CALLER, state)
    if found is None and manifest_of(place) == text:
        msg = f"{_CALLER}: {state} was removed after the rejector was opened"
        raise FileNotFoundError(msg)
    if found is None or stamp(state) != checked:
        msg = (  # the threshold is not for other arrays
            f"{_CALLER}: {state} was replaced after the rejector was opened, and "
            f"before its arrays were read. Load it again"
        )
        raise ArtefactError(msg)
    return found


def _check_state(fitted: Fitted, path: Path | str) -> None:
    """Score one made-up sample: raise unless the arrays are those of the detector."""
    sizes = {"logits": "n_classes", "features": "n_features"}
    rows = {
        name: np.ones((1, width))
        for name, size in sizes.items()
        if (width := fitted.widths.get(size))
    }
    if not rows:
        return  # fitted without data: there are no arrays
    try:
        with np.errstate(all="ignore"):
            (_known,) = fitted.known(Outputs(**rows)).tolist()  # one number
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        MemoryError,  # widths that no detector has
    ) as error:
        widths = " and ".join(
            f"{name} {width}" for name, width in fitted.widths.items()
        )
        msg = (
            f"{_CALLER}: {path} must hold the arrays of {fitted.detector!r} for "
            f"{widths}, got others ({type(error).__name__}: {error}). "
            "Calibrate again"
        )
        raise ArtefactError(msg) from error


def _check_reference(reference: Mapping[str, NDArray[Any]], path: Path | str) -> None:
    is_right = "known" in reference and all(
        grid.ndim == 1 and grid.size and grid.dtype == np.float64
        for grid in reference.values()
    )
    if not is_right:
        got = ", ".join(f"{n} {a.dtype}{a.shape}" for n, a in reference.items())
        msg = (
            f"{_CALLER}: {path} must hold quantiles of the calibration scores "
            f"(reference.known), got {got or 'none'}. Calibrate again"
        )
        raise ArtefactError(msg)


def _manifest(path: Path | str, text: bytes, key: bytes | None) -> dict[str, Any]:
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
    signature = manifest.pop("hmac", None)
    if key is not None:
        _verify(path, manifest, signature, key)
    wanted = {"detector", "threshold", "classes", "report", "files", "versions"}
    missing = sorted(wanted - manifest.keys())
    if missing:
        msg = f"{_CALLER}: {path} lacks {', '.join(missing)}"
        raise ArtefactError(msg)
    return manifest


def _check_key(caller: str, key: object) -> None:
    if key is None or (isinstance(key, bytes) and len(key) >= _SHORTEST_KEY):
        return
    got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
    msg = _check.must(
        f"at least {_SHORTEST_KEY} bytes",
        caller=caller,
        name="key",
        got=got,
        remedy="Make one with secrets.token_bytes(32)",
    )
    raise ValueError(msg) if isinstance(key, bytes) else TypeError(msg)


def _verify(
    path: Path | str, manifest: Mapping[str, Any], found: object, key: bytes
) -> None:
    if found is None:
        msg = (
            f"{_CALLER}: {path} must be signed to be verified with a key, got one "
            "without a signature. Save it with the key, or load it without"
        )
        raise ArtefactError(msg)
    if not hmac.compare_digest(str(found).encode(), _signature(manifest, key).encode()):
        msg = (
            f"{_CALLER}: {path} was signed with another key, or changed by somebody "
            "who does not have the key. Do not use it"
        )
        raise ArtefactError(msg)


def _signature(manifest: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, _canonical(manifest), "sha256").hexdigest()


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(manifest)).hexdigest()


def _canonical(manifest: Mapping[str, Any]) -> bytes:
    # NaN, which we never write, has a hash as well: that of a changed file.
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
