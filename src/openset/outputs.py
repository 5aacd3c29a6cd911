"""`Outputs`: the outputs of a network on one split, in the caller's array library."""

import json
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _io, _xp
from openset._types import UNKNOWN, Array, ArtefactError

_PER_SAMPLE = ("logits", "features", "labels", "groups", "ids")
_ARRAYS = (*_PER_SAMPLE, "weight", "bias")
_ABOUT = ("classes", "layers", "input_step")
_META = "meta.json"
# Arrays of outputs that replaced others in their folder; see `put_folder`.
_FILE = re.compile(rf"({'|'.join(_ARRAYS)})-[0-9a-f]{{8}}\.npy")
_ONE_LOGIT = (
    "Label samples of other classes -1. Two classes with one logit z take two columns: "
    "numpy.stack([-z, z], axis=1) / 2 has the same probabilities"
)
_LOOKED_AT = 64  # rows of logits that are compared with probabilities
_LEAST_ROWS = 8  # fewer may look like probabilities by chance
_ROUNDING = 1e-2  # of probabilities in half precision
_Outputs = TypeVar("_Outputs", bound="Outputs")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outputs:
    """Logits, features and labels of one split, as a network produced them.

    Arrays keep their library (NumPy, torch, ...) and device; labels and groups are
    NumPy arrays. Writeable NumPy arrays are copied, so that outputs never change.
    Memory maps and tensors of other libraries are not copied: do not change the file or
    the tensor. Memory maps are not read here; NaN in them is reported when they are
    scored.

    Parameters
    ----------
    logits
        Shape (n, C). May be omitted if `features` are given.
    features
        Input of the last linear layer, shape (n, d).
    labels
        ``0..C-1``, or -1 for samples of no known class. If omitted, the data are
        unlabelled: they can be predicted, but not evaluated.
    groups
        Where a sample comes from: strings or integers, shape (n,).
    ids
        Identifier of each sample, such as a file name: strings or integers, shape (n,).
    classes
        Names of the C known classes.
    weight, bias
        The last linear layer, ``logits = features @ weight.T + bias``: shapes (C, d)
        and (C,). Detectors that change features before the last layer need them.
    layers
        Where the features are those of several layers, side by side: (name, number of
        columns) of each, in their order. :meth:`of_layers` sets it.
    input_step
        How the inputs were moved along a gradient before the network saw them, in
        words; empty if they were not. :func:`openset.train.extract` sets it. A
        rejector refuses outputs of another step than that of its calibration.

    Examples
    --------
    >>> train = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
    >>> train
    Outputs(n=2, logits=(2, 2) float64, numpy)
    >>> train.take([1]).labels
    array([1])
    """

    logits: Array | None = None
    features: Array | None = None
    labels: NDArray[np.int64] | None = None
    groups: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    weight: Array | None = None
    bias: Array | None = None
    layers: tuple[tuple[str, int], ...] = ()
    input_step: str = ""

    def __init__(
        self,
        *,
        logits: Any = None,
        features: Any = None,
        labels: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        classes: Any = (),
        weight: Any = None,
        bias: Any = None,
        layers: Any = (),
        input_step: Any = "",
    ) -> None:
        if logits is None and features is None:
            msg = "Outputs: logits or features must be given, got neither"
            raise ValueError(msg)
        fields: dict[str, Any] = {
            "logits": _real("logits", logits, ndim=2),
            "features": _real("features", features, ndim=2),
            "labels": None,
            "groups": None,
            "ids": None,
            "classes": tuple(str(name) for name in classes),
            "weight": _real("weight", weight, ndim=2),
            "bias": _real("bias", bias, ndim=1),
            "layers": _layers(layers),
            "input_step": str(input_step),
        }
        if labels is not None:
            _check.unmasked("Outputs", "labels", labels)
            values = _xp.to_numpy(labels) if _xp.is_array_api_obj(labels) else labels
            fields["labels"] = _check.labels(
                "Outputs", "labels", values, lowest=UNKNOWN
            )
        for name, names in (("groups", groups), ("ids", ids)):
            if names is not None:
                fields[name] = _check.names("Outputs", name, names)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        present = {n: getattr(self, n) for n in _PER_SAMPLE}
        _check.same_length(
            "Outputs", {n: a.shape[0] for n, a in present.items() if a is not None}
        )
        self._check_one_place()
        self._check_class_count()
        self._check_layers()
        if _are_probabilities(self.logits):
            msg = (
                "Outputs: logits look like probabilities: they are in [0, 1], and rows "
                "add up to 1. Most detectors need what goes into the softmax. If you "
                "have probabilities p only, give numpy.log(p)"
            )
            warnings.warn(msg, stacklevel=2)

    def _check_one_place(self) -> None:
        names = ("logits", "features", "weight", "bias")
        arrays = {n: getattr(self, n) for n in names if getattr(self, n) is not None}
        first, *others = arrays
        for other in others:
            if not _xp.same_place(arrays[first], arrays[other]):
                places = [_xp.describe(arrays[name]) for name in (first, other)]
                msg = (
                    f"Outputs: {first} and {other} must share one array library and "
                    f"device, got {' and '.join(places)}"
                )
                raise ValueError(msg)

    def _check_class_count(self) -> None:
        counts: dict[str, int] = {}
        if self.logits is not None:
            counts["columns of logits"] = self.logits.shape[1]
        if self.weight is not None:
            counts["rows of weight"] = self.weight.shape[0]
        if self.bias is not None:
            counts["entries of bias"] = self.bias.shape[0]
        if self.classes:
            counts["class names"] = len(self.classes)
        if len(set(counts.values())) > 1:
            msg = "Outputs: class counts must agree, got " + ", ".join(
                f"{count} {what}" for what, count in counts.items()
            )
            raise ValueError(msg)
        if self.weight is not None and self.features is not None:
            d, wanted = self.features.shape[1], self.weight.shape[1]
            if d != wanted:
                got = f"{wanted} for {d} features"
                rule = "as wide as features"
                raise ValueError(
                    _check.must(rule, caller="Outputs", name="weight", got=got)
                )
        if counts and self.labels is not None:
            n_classes = next(iter(counts.values()))
            highest = int(self.labels.max())
            if highest >= n_classes:
                msg = _check.must(
                    f"below {n_classes}, the number of classes",
                    caller="Outputs",
                    name="labels",
                    got=highest,
                    remedy=_ONE_LOGIT
                    if n_classes == 1
                    else "Label samples of other classes -1",
                )
                raise ValueError(msg)

    def _check_layers(self) -> None:
        if not self.layers:
            return
        d = 0 if self.features is None else int(self.features.shape[1])
        widths = [width for _, width in self.layers]
        names = {name for name, _ in self.layers}
        if sum(widths) != d or min(widths) < 1 or len(names) < len(widths):
            shown = ", ".join(f"{name} {width}" for name, width in self.layers)
            msg = _check.must(
                f"different names with the columns of each, {d} in all",
                caller="Outputs",
                name="layers",
                got=shown,
            )
            raise ValueError(msg)

    def __len__(self) -> int:
        array = self.logits if self.logits is not None else self.features
        return int(array.shape[0])  # type: ignore[union-attr]

    def __setstate__(self, state: dict[str, Any]) -> None:
        _check.restore(self, state)

    def __repr__(self) -> str:
        parts = [f"n={len(self)}"]
        for name in ("logits", "features"):
            array = getattr(self, name)
            if array is not None:
                dtype = str(array.dtype).removeprefix("torch.")
                parts.append(f"{name}={tuple(array.shape)} {dtype}")
        if self.layers:
            parts.append(f"layers={len(self.layers)}")
        if self.weight is not None:
            parts.append("head")
        if self.input_step:
            parts.append(self.input_step)
        if self.groups is not None:
            parts.append(f"groups={np.unique(self.groups).size}")
        parts.append(_xp.describe(self._any_array()))
        return f"Outputs({', '.join(parts)})"

    def _any_array(self) -> Array:
        return self.logits if self.logits is not None else self.features

    @property
    def n_classes(self) -> int | None:
        """Number of known classes; None without logits, head and class names."""
        if self.logits is not None:
            return int(self.logits.shape[1])
        if self.weight is not None:
            return int(self.weight.shape[0])
        return len(self.classes) or None

    @property
    def nbytes_per_sample(self) -> int:
        """Bytes of logits and features of one sample."""
        arrays = [a for a in (self.logits, self.features) if a is not None]
        bits = [_xp.array_namespace(a).finfo(a.dtype).bits for a in arrays]
        return sum(int(a.shape[1]) * b // 8 for a, b in zip(arrays, bits, strict=True))

    def take(self, rows: Any) -> Self:
        """Return the samples that `rows` (a mask, slice or indices) selects.

        A slice of a memory-mapped or in-memory array is a view: nothing is copied.
        """
        chosen = rows if isinstance(rows, slice) else _xp.to_numpy(rows)
        index = _check.rows("Outputs.take", chosen, len(self))
        if not isinstance(index, slice) and index.dtype.kind == "b":
            index = np.flatnonzero(index)
        return replaced(self, **{n: self._rows(n, index) for n in _PER_SAMPLE})

    def _rows(self, name: str, index: Any) -> Any:
        array = getattr(self, name)
        if array is None or isinstance(index, slice):
            return None if array is None else array[index, ...]
        if isinstance(array, np.ndarray):
            return array[index]
        xp = _xp.array_namespace(array)
        return xp.take(array, xp.asarray(index, device=_xp.device(array)), axis=0)

    def as_unknown(self) -> Self:
        """Return the same samples, each with the label -1.

        Examples
        --------
        >>> Outputs(logits=[[1.0, 0.0]]).as_unknown().labels
        array([-1])
        """
        return replaced(self, labels=np.full(len(self), UNKNOWN))

    @classmethod
    def of_layers(cls, parts: "Mapping[str, Outputs]") -> "Outputs":
        """Put the features of several layers of one network side by side.

        Everything else is that of the first part.

        Parameters
        ----------
        parts
            Outputs by the name of the layer, such as
            :func:`openset.train.extract_layers` returns, all of the same samples.

        Examples
        --------
        >>> first = Outputs(logits=[[1.0, 0.0]], features=[[2.0, 3.0]])
        >>> second = Outputs(logits=[[1.0, 0.0]], features=[[4.0]])
        >>> both = Outputs.of_layers({"conv1": first, "conv2": second})
        >>> both.layers, both.features
        ((('conv1', 2), ('conv2', 1)), array([[2., 3., 4.]]))
        """
        caller = "Outputs.of_layers"
        if not parts:
            rule = "outputs of one or several layers"
            raise ValueError(_check.must(rule, caller=caller, name="parts", got="none"))
        for name, part in parts.items():
            need_outputs(caller, f"layer {name!r}", part)
            if part.features is None:
                rule, got = "outputs with features", "none"
                msg = _check.must(rule, caller=caller, name=f"layer {name!r}", got=got)
                raise ValueError(msg)
        _check.same_length(caller, {name: len(part) for name, part in parts.items()})
        first = next(iter(parts.values()))
        arrays: list[Array] = [part.features for part in parts.values()]
        return cls(
            logits=first.logits,
            features=_xp.array_namespace(*arrays).concat(arrays, axis=1),
            labels=first.labels,
            groups=first.groups,
            ids=first.ids,
            classes=first.classes,
            input_step=first.input_step,
            layers=[
                (name, array.shape[1])
                for name, array in zip(parts, arrays, strict=True)
            ],
        )

    def by_layer(self) -> "dict[str, Outputs]":
        """Return the outputs of each layer, as :meth:`of_layers` took them.

        Examples
        --------
        >>> both = Outputs(features=[[2.0, 3.0, 4.0]], layers=[("a", 2), ("b", 1)])
        >>> both.by_layer()["b"].features
        array([[4.]])
        """
        found, start = {}, 0
        for name, width in self.layers:
            columns = self.features[:, start : start + width]  # type: ignore[index]
            others = {"layers": (), "weight": None, "bias": None}
            found[name] = replaced(self, features=columns, **others)
            start += width
        return found

    @classmethod
    def concat(cls, parts: "list[Outputs]") -> Self:
        """Concatenate several splits of one network."""
        parts = list(parts)
        if not parts:
            msg = "Outputs.concat: parts must be a non-empty list, got []"
            raise ValueError(msg)
        for part in parts:
            need_outputs("Outputs.concat", "parts", part)
        columns: dict[str, Any] = {
            name: _of_one_network(name, [getattr(part, name) for part in parts])
            for name in ("classes", "weight", "bias", "layers")
        }
        steps = sorted({part.input_step for part in parts})
        if len(steps) > 1:
            got = " and ".join(one or "none" for one in steps)
            rule = "of inputs moved by one step"
            raise ValueError(
                _check.must(rule, caller="Outputs.concat", name="parts", got=got)
            )
        for name in _PER_SAMPLE:
            arrays = [getattr(part, name) for part in parts]
            missing = sum(array is None for array in arrays)
            if missing == len(arrays):
                continue
            if missing and name == "ids":  # not used in computations
                columns[name] = None
                continue
            if missing:
                msg = (
                    f"Outputs.concat: {name} must be given for all parts or for none, "
                    f"got {missing} of {len(arrays)} without"
                )
                raise ValueError(msg)
            _check_alike(name, arrays)
            if isinstance(arrays[0], np.ndarray):
                columns[name] = np.concatenate(arrays)
            else:
                columns[name] = _xp.array_namespace(*arrays).concat(arrays, axis=0)
        return replaced(parts[0], **columns)  # type: ignore[return-value]

    def batches(self, size: int) -> "Iterator[Outputs]":
        """Split into batches of at most `size` samples, as views."""
        _check.positive_int("Outputs.batches", "size", size)
        for start in range(0, len(self), size):
            yield self.take(slice(start, min(start + size, len(self))))

    def to(self, place: Any) -> Self:
        """Move the arrays to another device, or to NumPy with ``to("numpy")``."""
        if place == "numpy":
            return self._moved(_xp.to_numpy)
        return self._moved(lambda array: _xp.to_device(array, place))

    def like(self, other: "Outputs") -> Self:
        """Move the arrays to the library and device of other outputs or of an array.

        Examples
        --------
        >>> ours = Outputs(logits=[[1.0, 0.0]])
        >>> ours.like(Outputs(logits=[[2.0, 3.0]]))
        Outputs(n=1, logits=(1, 2) float64, numpy)
        """
        model = other.features if other.logits is None else other.logits
        return self._moved(lambda array: _xp.moved(_xp.to_numpy(array), model))

    def _moved(self, move: Callable[[Any], Any]) -> Self:
        names = ("logits", "features", "weight", "bias")
        arrays = {name: getattr(self, name) for name in names}
        moved = {n: move(a) for n, a in arrays.items() if a is not None}
        return replaced(self, **moved)

    def _numpy(self) -> dict[str, NDArray[Any]]:
        arrays = {n: getattr(self, n) for n in _ARRAYS if getattr(self, n) is not None}
        return {name: _xp.to_numpy(array) for name, array in arrays.items()}

    def save(self, path: str | Path) -> Path:
        """Write a ``.npz`` file; for a name without ending, a folder of ``.npy`` files.

        :meth:`load` memory-maps such a folder instead of reading it. An existing file
        or folder is replaced in one step: a process that loads it meanwhile, or after a
        crash, gets either the old outputs or the new ones.
        """
        path = Path(path)
        arrays = self._numpy()
        if path.suffix == ".npz":
            if self.classes:
                arrays["classes"] = np.array(self.classes, dtype=np.str_)
            if self.layers:
                arrays["layers"] = np.array(self.layers, dtype=np.str_)
            if self.input_step:
                arrays["input_step"] = np.array(self.input_step)
            _io.write_npz(path, arrays)
            return path
        if path.suffix:
            rule = "'.npz', or none for a folder of .npy files"
            raise ValueError(
                _check.must(
                    rule, caller="Outputs.save", name="ending", got=repr(path.suffix)
                )
            )
        with _io.replacing_folder(path, put=put_folder) as temporary:
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", array, allow_pickle=False)
            meta = {
                "kind": "openset.Outputs",
                "schema": 1,
                "classes": self.classes,
                "layers": self.layers,
                "input_step": self.input_step,
            }
            (temporary / _META).write_text(json.dumps(meta), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.npz`` file, or memory-map a folder of ``.npy`` files."""
        path = Path(path)
        if not path.exists():
            msg = f"Outputs.load: no such file or folder: {path}"
            raise FileNotFoundError(msg)
        if path.is_dir():
            return cls._load_folder(path)
        arrays = _io.read_npz("Outputs.load", path)
        _need_logits_or_features(path, arrays)
        optional = (*_ARRAYS, *_ABOUT)
        arrays = _io.pick("Outputs.load", path, arrays, required=(), optional=optional)
        with _io.naming(path):
            return cls(**{name: _check.frozen(a) for name, a in arrays.items()})

    @classmethod
    def _load_folder(cls, path: Path) -> Self:
        text = _meta(path)
        while True:
            try:
                return cls._mapped(path, text)
            except ArtefactError:
                # Outputs that are saved meanwhile take the files of these away.
                before, text = text, _meta(path)
                if text == before:
                    raise

    @classmethod
    def _mapped(cls, path: Path, text: bytes | None) -> Self:
        arrays: dict[str, Any] = {}
        about, files = _described(path / _META, text)
        for name in _ARRAYS:
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
        with _io.naming(path):
            return cls(**arrays, **about)


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
    with _io.locked(path / ".lock") as is_alone:
        mark = secrets.token_hex(4)
        arrays = [file for file in folder.glob("*.npy") if file.stem in _ARRAYS]
        meta["files"] = {one.stem: f"{one.stem}-{mark}.npy" for one in arrays}
        for one in arrays:
            one.rename(path / meta["files"][one.stem])
        text = json.dumps(meta)
        _io.write(path / _META, lambda stream: stream.write(text.encode()))
        if is_alone:
            _tidy(path, {*meta["files"].values()})
    shutil.rmtree(folder)


def _tidy(path: Path, used: set[str]) -> None:
    """Remove the arrays of earlier outputs, and what a killed save left behind."""
    usual = {f"{name}.npy" for name in _ARRAYS}
    for file in path.iterdir():
        is_ours = file.name in usual or _FILE.fullmatch(file.name)
        if (is_ours and file.name not in used) or file.name.startswith(f".{_META}."):
            file.unlink()


def replaced(outputs: _Outputs, **changes: Any) -> _Outputs:
    """Return outputs with other arrays, which are not checked.

    For arrays that were computed from checked ones, and that no caller can modify.
    """
    other = object.__new__(type(outputs))
    for name in (*_ARRAYS, *_ABOUT):
        value = changes.get(name, getattr(outputs, name))
        if isinstance(value, np.ndarray):
            _check.frozen(value)
        object.__setattr__(other, name, value)
    return other


def need_outputs(caller: str, name: str, value: object, remedy: str = "") -> None:
    """Raise TypeError if the argument is not `Outputs`."""
    _check.instance(
        caller,
        name,
        value,
        Outputs,
        rule="Outputs",
        remedy=remedy or "Wrap your arrays: Outputs(logits=..., labels=...)",
    )


def need_same_classes(
    caller: str, outputs: Outputs, classes: tuple[str, ...], *, of: str, name: str
) -> None:
    """Raise if both name their classes, and do so differently.

    Class 0 of one would be another class of the other. Outputs without names pass.
    """
    if not classes or not outputs.classes or classes == outputs.classes:
        return
    pairs = zip(outputs.classes, classes, strict=False)  # lengths: checked as widths
    place = next((c for c, (one, other) in enumerate(pairs) if one != other), None)
    if place is None:
        return
    msg = _check.must(
        f"those of {of}, in the same order",
        caller=caller,
        name=f"classes of {name}",
        got=f"{outputs.classes[place]!r} for class {place}, which is "
        f"{classes[place]!r} there",
        remedy="Take outputs of the same network. If only the spelling differs, make "
        "the outputs without classes=",
    )
    raise ValueError(msg)


def _of_one_network(name: str, found: list[Any]) -> Any:
    """Return the value that all parts which have one share."""
    given = [one for one in found if one is not None and len(one)]
    for other in given[1:]:
        if not np.array_equal(_xp.to_numpy(given[0]), _xp.to_numpy(other)):
            rule = "of one network"
            got = f"different {name}"
            raise ValueError(
                _check.must(rule, caller="Outputs.concat", name="parts", got=got)
            )
    return given[0] if given else found[0]


def _check_alike(name: str, arrays: list[Any]) -> None:
    """Refuse parts of different widths, array libraries or devices."""
    shapes = [tuple(array.shape[1:]) for array in arrays]
    if len(set(shapes)) > 1:
        widths = ", ".join(str(shape[0]) for shape in shapes)
        msg = f"Outputs.concat: {name} must be equally wide in all parts, got {widths}"
        raise ValueError(msg)
    places = sorted({_xp.describe(array) for array in arrays})
    if len(places) > 1:
        msg = (
            f"Outputs.concat: {name} must share one array library and device, got "
            f"{' and '.join(places)}. Move them with to() or like()"
        )
        raise ValueError(msg)


def _need_logits_or_features(path: Path, arrays: dict[str, Any]) -> None:
    if "logits" not in arrays and "features" not in arrays:
        have = ", ".join(sorted(arrays)) or "neither"
        msg = f"Outputs.load: {path} must hold logits or features, got {have}"
        if "known" in arrays:
            msg += ". These are scores already: see openset evaluate, or Scores.load"
        raise ArtefactError(msg)


def leading_rows(array: Array | None) -> NDArray[np.float64] | None:
    """Return the first rows of an array in memory; None if they are too few."""
    if array is None or array.shape[0] < _LEAST_ROWS or isinstance(array, np.memmap):
        return None
    stop = min(_LOOKED_AT, array.shape[0])
    return _xp.to_numpy(_xp.as_float(array[:stop, ...])).astype(np.float64)


def _are_probabilities(logits: Array | None) -> bool:
    """Whether rows add up to 1, as far as they are looked at; not if all are 0 or 1."""
    rows = leading_rows(logits)
    if rows is None or rows.min() < 0 or rows.max() > 1:
        return False
    close = np.abs(rows.sum(axis=1) - 1) <= _ROUNDING
    return bool(close.all()) and bool(((rows > 0) & (rows < 1)).any())


def _layers(pairs: Any) -> tuple[tuple[str, int], ...]:
    try:
        return tuple((str(name), int(width)) for name, width in pairs)
    except (TypeError, ValueError) as error:
        rule = "(name, number of columns) of each layer"
        got = repr(pairs)
        msg = _check.must(rule, caller="Outputs", name="layers", got=got)
        raise ValueError(msg) from error


def _is_real(array: Array) -> bool:
    if isinstance(array, np.ndarray):  # others are not in the array API
        return array.dtype.kind in "fiu"
    kinds = ("real floating", "integral")
    return bool(_xp.array_namespace(array).isdtype(array.dtype, kinds))


def _real(name: str, values: Any, *, ndim: int) -> Array | None:
    """Check dimension, dtype and, if the array is in memory, that it has no NaN."""
    if values is None:
        return None
    _check.unmasked("Outputs", name, values)
    array = values if _xp.is_array_api_obj(values) else np.asarray(values)
    if not _is_real(array):
        got = f"dtype {str(array.dtype).removeprefix('torch.')}"
        raise TypeError(_check.must("real", caller="Outputs", name=name, got=got))
    if array.ndim != ndim or 0 in array.shape:
        rule = f"a non-empty array of {ndim} dimension{'s' if ndim > 1 else ''}"
        got = f"shape {tuple(array.shape)}"
        raise ValueError(_check.must(rule, caller="Outputs", name=name, got=got))
    array = _xp.as_float(array)
    if isinstance(array, np.memmap):
        return array  # read and checked batch by batch
    xp = _xp.array_namespace(array)
    if bool(xp.isnan(xp.min(array))):  # min propagates NaN: one pass, no mask
        rows = _xp.to_numpy(xp.any(xp.isnan(array), axis=-1))
        bad = np.flatnonzero(np.atleast_1d(rows))
        msg = _check.must(
            "free of NaN",
            caller="Outputs",
            name=name,
            got=f"NaN in {bad.size} rows, first in row {bad[0]}",
        )
        raise ValueError(msg)
    return _check.owned(array, values) if isinstance(array, np.ndarray) else array
