"""`Detector` (a recipe) and `Fitted` (recipe + arrays), one or many at a time."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, reduce
from inspect import Parameter, signature
from operator import add
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _plugins, _xp
from openset._types import UNKNOWN, Array, ArtefactError
from openset.detectors._batch import Batch, State, batches, first, working_dtype
from openset.detectors._registry import REGISTRY
from openset.detectors.constraints import Constraint
from openset.outputs import Outputs, need_outputs, need_same_classes
from openset.scores import Scores


@dataclass(frozen=True, kw_only=True)
class Detector(ABC):
    """A detector with its hyper-parameters; :meth:`fit` returns a :class:`Fitted`.

    A subclass defines `_fit` (from training outputs to named arrays) and `_score` (from
    named arrays and a batch to one knownness per sample, larger = more known). Both
    compute with the caller's array library; checks, batching, argmax and the conversion
    to NumPy are done here.

    A subclass is registered under its `name` (by default its class name in lower case)
    as soon as it is defined, so that :func:`make`, the command line and study files
    find it; ``register=False`` in the class statement prevents that. Classes whose
    name begins with an underscore are not registered.

    Attributes
    ----------
    name
        Name used in Python, on the command line and in files.
    fit_needs, score_needs
        Inputs that fitting and scoring need: ``"logits"``, ``"features"``; fitting also
        ``"labels"`` and ``"head"``.
    fit_cost, score_cost
        Arithmetic per sample, as text.
    paper
        Author and year.
    constraints
        Allowed values of the parameters (:mod:`openset.detectors.constraints`).
    rejects_by_argmax
        Whether one of its class probabilities is for "unknown", and it was published
        with the rule to reject a sample if that one is the largest.
    """

    name: ClassVar[str]
    fit_needs: ClassVar[tuple[str, ...]] = ()
    score_needs: ClassVar[tuple[str, ...]] = ("logits",)
    fit_cost: ClassVar[str] = "-"
    score_cost: ClassVar[str] = "-"
    paper: ClassVar[str] = "-"
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    rejects_by_argmax: ClassVar[bool] = False

    def __init_subclass__(cls, *, register: bool = True, listed: bool = True) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()
        if register and not cls.__name__.startswith("_"):
            REGISTRY.register(cls.name, cls, listed=listed)

    def __post_init__(self) -> None:
        """Convert numbers to Python's types, and check the constraints."""
        # NumPy's types would promote float32 scores to float64, and are not valid JSON.
        for name, value in list(vars(self).items()):
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
        self._check_params(vars(self))

    def _check_params(self, values: Mapping[str, Any]) -> None:
        for name, constraint in self.constraints.items():
            constraint.check(type(self).__name__, name, values[name])

    @property
    def recipes(self) -> "tuple[Detector, ...]":
        """The detectors this one combines; empty for others."""
        return ()

    @property
    def scored_layers(self) -> tuple[tuple[str, int], ...]:
        """Name and number of columns of the layers it scores; empty for most."""
        return ()

    @property
    def input_step(self) -> str:
        """The step of the inputs that it needs before, in words; empty for most."""
        return ""

    @property
    def predicts_classes(self) -> bool:
        """Whether the detector predicts classes itself, from features alone."""
        first = (*self.recipes, self)[0]  # of a combination, the first one does
        return type(first)._predict is not Detector._predict

    def _fit(self, train: Outputs) -> State:
        """Compute named arrays from training outputs; by default none."""
        return {}

    def _ready(self, state: State, dtype: Any) -> State:
        """Prepare the state for scoring outputs of this dtype, once for all batches.

        A detector whose `_score` multiplies matrices returns ``in_dtype(state,
        dtype)``.
        """
        return state

    def _refuse(self, outputs: Outputs) -> None:
        """Raise for outputs that would be scored, but mean nothing to this method."""
        return

    @abstractmethod
    def _score(self, state: State, batch: Batch) -> Array:
        """Knownness of each sample, larger = more known."""

    def _probability(self, state: State, batch: Batch) -> Array | None:
        """Knownness as a probability, for the methods that define one."""
        return None

    def _class_probabilities(self, state: State, batch: Batch) -> Array | None:
        """One probability per class, for the methods that define them."""
        return None

    def _predict(self, state: State, batch: Batch) -> Array | None:
        """Class of each sample, for methods that classify from features alone."""
        return None

    def write_onnx(self, sample: Any) -> Any:
        """Write the knownness as an ONNX graph; None if the method has no graph.

        `sample` is a :class:`openset.integrations.onnx.Sample`.
        """
        return None

    def params(self) -> dict[str, Any]:
        """Return the keyword arguments that build this recipe.

        Raises for a class with an ``__init__`` of its own whose arguments are not
        fields of a dataclass: they would be missing in what is saved.
        """
        _need_fields(type(self))
        return asdict(self)

    def origins(self, *, caller: str) -> list[dict[str, Any]]:
        """Return the classes and packages that this detector needs.

        Raises for a class that cannot be imported, so that whatever is saved can be
        loaded.
        """
        used = {type(one).name: type(one) for one in (self, *self.recipes)}
        return _plugins.origins(used.items(), caller=caller)

    @property
    def learns(self) -> bool:
        """Whether the detector must be fitted on training outputs.

        Examples
        --------
        >>> from openset.detectors import KNN, MSP
        >>> MSP().learns, KNN().learns
        (False, True)
        """
        return type(self)._fit is not Detector._fit

    def missing_from(self, outputs: Outputs) -> tuple[str, ...]:
        """Return the inputs that `fit` needs and these outputs lack.

        Examples
        --------
        >>> from openset.detectors import MSP, RMDS
        >>> outputs = Outputs(logits=[[2.0, 0.0]])
        >>> MSP().missing_from(outputs), RMDS().missing_from(outputs)
        ((), ('features', 'labels'))
        """
        needs = dict.fromkeys((*self.fit_needs, *self.score_needs))
        return tuple(_absent(needs, outputs))

    def fit(self, outputs: Outputs | None = None) -> "Fitted":
        """Learn from the outputs of the *training* split (known samples only).

        They may be omitted for a detector that needs no fitting.
        """
        if outputs is None and not self.learns:
            return Fitted(detector=self, state={})
        need_outputs(f"{type(self).__name__}.fit", "outputs", outputs)
        return self._fitted(cast(Outputs, outputs))

    def _fitted(self, outputs: Outputs) -> "Fitted":
        caller = type(self).__name__
        _need(caller, "fit", self.fit_needs, outputs)
        if outputs.labels is not None and outputs.labels.min() == UNKNOWN:
            n_unknown = int(np.count_nonzero(outputs.labels == UNKNOWN))
            msg = _check.must(
                "known samples only",
                caller=f"{caller}.fit",
                name="outputs",
                got=f"{n_unknown} with label {UNKNOWN}",
                remedy="Use outputs.take(outputs.labels >= 0); unknown samples are "
                "for calibration, not for fitting",
            )
            raise ValueError(msg)
        widths = {
            "n_classes": outputs.n_classes,
            "n_features": _width(outputs.features),
        }
        try:
            state = _named_arrays(caller, self._fit(outputs))
        except ValueError:
            _need_finite(caller, outputs)  # infinite inputs can give NaN
            raise
        if not _are_finite(state.values()):
            _need_finite(caller, outputs)
        return Fitted(
            detector=self, state=state, widths=widths, classes=outputs.classes
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted detector: its hyper-parameters and named arrays.

    `classes` are the names of the classes it was fitted on, if the outputs had names;
    they are not saved with it (a rejector saves those of its calibration).
    """

    detector: Detector
    state: State
    widths: Mapping[str, int | None] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Pickle the arrays, but not what was prepared from them.
        return {name: v for name, v in self.__dict__.items() if name != "_states"}

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n}{tuple(a.shape)}" for n, a in self.state.items())
        return f"Fitted({self.detector!r}; {arrays or 'no state'})"

    def score(
        self,
        outputs: Outputs,
        *,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> Scores:
        """Score labelled outputs in batches; the result is NumPy."""
        return score_all([self], outputs, batch_size=batch_size, progress=progress)[
            self.detector.name
        ]

    def known(self, outputs: Outputs, *, batch_size: int | None = None) -> NDArray[Any]:
        """Return the knownness alone, for outputs without labels."""

        def one(batch: Batch) -> Array:
            return _scored(self, self._ready(outputs), batch)

        return self._run(one, outputs, batch_size)

    def known_of_batch(self, batch: Batch) -> Array:
        """Return the knownness of a batch in its own array library, unchecked."""
        return self.detector._score(self.prepared(batch.logits.dtype), batch)

    def prepared(self, dtype: Any) -> State:
        """Return the arrays as they are used to score outputs of this dtype."""
        if dtype not in self._states:
            self._states[dtype] = self.detector._ready(self.state, dtype)
        return self._states[dtype]

    def probability(
        self, outputs: Outputs, *, batch_size: int | None = None
    ) -> NDArray[Any]:
        """Return the probability of being known, for methods that define one."""

        def one(batch: Batch) -> Array:
            values = self.detector._probability(self._ready(outputs), batch)
            if values is None:
                msg = f"{type(self.detector).__name__}: defines no probability"
                raise TypeError(msg)
            return values

        return self._run(one, outputs, batch_size)

    def class_probabilities(
        self, outputs: Outputs, *, batch_size: int | None = None
    ) -> NDArray[Any]:
        """Return the probability of each class, for methods that define them.

        Shape (n, C), or (n, C + 1) for methods with a class of unknowns: it comes last,
        so that the label -1 of unknowns indexes it.
        """

        def one(batch: Batch) -> Array:
            values = self.detector._class_probabilities(self._ready(outputs), batch)
            if values is None:
                msg = f"{type(self.detector).__name__}: defines no class probabilities"
                raise TypeError(msg)
            return values

        return self._run(one, outputs, batch_size)

    def _run(
        self, one: Callable[[Batch], Array], outputs: Outputs, batch_size: int | None
    ) -> NDArray[Any]:
        self._check(outputs)
        cut = batches(outputs, batch_size, progress=False)
        parts = [_xp.to_numpy(one(batch)) for _, batch in cut]
        values = np.concatenate(parts).astype(np.float64, copy=False)
        if np.isnan(values.min()):  # min propagates NaN: one pass, no mask
            bad = np.unique(np.nonzero(np.isnan(values))[0])
            msg = _check.must(
                "free of NaN",
                caller=type(self.detector).__name__,
                name="result",
                got=f"NaN for {bad.size} samples, first in row {bad[0]}",
                remedy="Look for infinite logits or features",
            )
            raise ValueError(msg)
        return values

    @cached_property
    def _states(self) -> dict[Any, State]:
        return {}  # prepared states by dtype: an index is built once, not per call

    def _ready(self, outputs: Outputs) -> State:
        return self.prepared(working_dtype(outputs))

    def _check(self, outputs: Outputs) -> None:
        caller = type(self.detector).__name__
        need_outputs(f"{caller}.score", "outputs", outputs)
        _need(caller, "score", self.detector.score_needs, outputs)
        got = {
            "n_classes": outputs.n_classes,
            "n_features": _width(outputs.features),
        }
        for what, fitted in self.widths.items():
            if fitted is not None and got[what] is not None and fitted != got[what]:
                msg = _check.must(
                    f"{fitted}, as in fit",
                    caller=f"{caller}.score",
                    name=what,
                    got=got[what],
                )
                raise ValueError(msg)
        need_same_classes(
            f"{caller}.score",
            outputs,
            self.classes,
            of="the outputs it was fitted on",
            name="outputs",
        )
        for recipe in (self.detector, *self.detector.recipes):
            recipe._refuse(outputs)
        layers = self.detector.scored_layers
        # Arrays of a server's client do not say which layers they are of.
        if layers and outputs.layers and outputs.layers != layers:
            msg = _check.must(
                f"of the layers {_listed(layers)}, as in fit",
                caller=f"{caller}.score",
                name="outputs",
                got=_listed(outputs.layers),
            )
            raise ValueError(msg)
        wanted, moved = self.detector.input_step, outputs.input_step
        if wanted and moved and moved.partition(",std=")[0] != wanted:
            msg = _check.must(
                f"of inputs moved by {wanted}",
                caller=f"{caller}.score",
                name="outputs",
                got=moved,
                remedy="Extract them for this detector, see openset extract --help",
            )
            raise ValueError(msg)
        for name, array in self.state.items():
            if not _xp.same_place(array, first(outputs)):
                msg = (
                    f"{caller}.score: outputs must be in the library and on the "
                    f"device of the fitted arrays, got {_xp.describe(first(outputs))} "
                    f"for {name} in {_xp.describe(array)}. Move one: "
                    "fitted.to(outputs.logits) or outputs.to('numpy')"
                )
                raise ValueError(msg)

    def to(self, like: Array) -> "Fitted":
        """Move the state to the library and device of an array (e.g. your logits)."""
        if not _xp.is_array_api_obj(like):
            msg = _check.must(
                "an array",
                caller="Fitted.to",
                name="like",
                got=type(like).__name__,
                remedy="Give an array on the device to score on, such as your logits",
            )
            raise TypeError(msg)
        state = {n: _xp.moved(_xp.to_numpy(a), like) for n, a in self.state.items()}
        return replace(self, state=state)

    def save(self, path: str | Path) -> Path:
        """Write one ``.npz``: the arrays, and the recipe as JSON. No pickle."""
        path = Path(path)
        _check.one_of(
            "Fitted.save", f"the ending of {path.name}", path.suffix, [".npz"]
        )
        recipe = {
            "kind": "openset.Fitted",
            "schema": 1,
            "detector": self.detector.name,
            "classes": self.detector.origins(caller="Fitted.save"),
            "params": self.detector.params(),
            "widths": dict(self.widths),
        }
        arrays = {f"state.{n}": _xp.to_numpy(a) for n, a in self.state.items()}
        _io.write_npz(path, {"recipe": np.array(json.dumps(recipe)), **arrays})
        return path

    @classmethod
    def load(cls, path: str | Path, *, plugins: Sequence[str] = ()) -> "Fitted":
        """Read what :meth:`save` wrote; the arrays are NumPy (see :meth:`to`).

        The file does not decide what is imported: a detector of your own must be
        registered, offered by an installed package, or named in `plugins`
        (``"package.module:Class"``).
        """
        path = Path(path)
        arrays = _io.read_npz("Fitted.load", path)
        try:
            recipe = json.loads(str(arrays.pop("recipe")))
            kind, schema = recipe["kind"], recipe["schema"]
        except (KeyError, ValueError, TypeError) as error:
            msg = f"Fitted.load: {path} holds no detector ({error!r})"
            raise ArtefactError(msg) from error
        if kind != "openset.Fitted" or schema != 1:
            msg = (
                f"Fitted.load: {path} must be an openset.Fitted of schema 1, got "
                f"{kind} of schema {schema}. Upgrade openset to read newer files"
            )
            raise ArtefactError(msg)
        state = {name.removeprefix("state."): array for name, array in arrays.items()}
        try:
            detector = remade(
                recipe["detector"],
                recipe["params"],
                recipe.get("classes", []),
                caller="Fitted.load",
                path=path,
                plugins=plugins,
            )
            widths = dict(recipe["widths"])
        except (KeyError, TypeError) as error:
            msg = f"Fitted.load: {path} is damaged ({error!r})"
            raise ArtefactError(msg) from error
        return cls(detector=detector, state=state, widths=widths)


def remade(
    name: str,
    params: Mapping[str, Any],
    classes: Sequence[Mapping[str, Any]],
    *,
    caller: str,
    path: Path | str,
    plugins: Sequence[str],
) -> Detector:
    """Build the detector a file describes, from classes the caller trusts.

    `classes` are the origins the file was written with; files without them name
    detectors that come with openset.
    """
    written = {one["name"]: one["class"] for one in classes}
    trusted = {
        one: REGISTRY.trusted(one, written.get(one), caller=caller, plugins=plugins)
        for one in {name, *written}
    }
    try:
        with _plugins.reading_a_file():
            return trusted[name](**params)
    except (ValueError, TypeError) as error:
        msg = (
            f"{caller}: {path} holds a detector this version of openset cannot make "
            f"({error})"
        )
        raise ArtefactError(msg) from error


def score_all(
    fitted: Iterable[Fitted] | Mapping[str, Fitted],
    outputs: Outputs,
    *,
    batch_size: int | None = None,
    progress: bool = False,
) -> dict[str, Scores]:
    """Score several fitted detectors in one pass over logits and features.

    Reductions (largest logit, argmax, log-sum-exp, norms) are shared, and the data are
    read in batches: beyond the result, memory does not grow with the number of samples.

    Parameters
    ----------
    fitted
        Fitted detectors; a mapping names the results, a list uses detector names.
    outputs
        Labelled outputs of the split to score.
    batch_size
        Samples per batch; by default as many as fit a few megabytes.
    progress
        Show a progress bar.
    """
    if not isinstance(fitted, Mapping):
        listed = need_fitted("score_all", fitted)
        fitted = {one.detector.name: one for one in listed}
        if len(fitted) != len(listed):
            msg = (
                "score_all: detectors must have different names, got two of one kind. "
                "Pass a mapping from your own names to them"
            )
            raise ValueError(msg)
    else:
        need_fitted("score_all", fitted.values())
    need_outputs("score_all", "outputs", outputs)
    if outputs.labels is None:
        msg = (
            "score: outputs must have labels, got none. Use fitted.known(outputs) for "
            "the knownness of unlabelled data"
        )
        raise ValueError(msg)
    for one in fitted.values():
        one._check(outputs)
    states = {name: one._ready(outputs) for name, one in fitted.items()}
    # Columns stay on the device until the last batch: a transfer per batch can cost
    # more than the scores.
    known: dict[str, list[Array]] = {name: [] for name in fitted}
    predicted: dict[str, list[Array]] = {name: [] for name in fitted}
    top_classes: list[Array] = []
    for _, batch in batches(outputs, batch_size, progress=progress):
        if outputs.logits is not None:
            top_classes.append(batch.top_class)
        for name, one in fitted.items():
            known[name].append(_scored(one, states[name], batch))
            if outputs.logits is None:
                predicted[name].append(_own_classes(one, states[name], batch))
    shared = _column(top_classes, np.int64) if top_classes else None
    return {
        name: Scores(
            labels=outputs.labels,
            predicted=_column(predicted[name], np.int64) if shared is None else shared,
            known=_column(known.pop(name), np.float64),
            groups=outputs.groups,
            n_classes=outputs.n_classes,
        )
        for name in fitted
    }


def need_fitted(caller: str, values: Any) -> list[Fitted]:
    """Return fitted detectors as a list; raise if one is not fitted."""
    listed = list(values) if isinstance(values, Iterable) else []
    odd = [v for v in listed if not isinstance(v, Fitted)]
    if odd or not isinstance(values, Iterable):
        msg = _check.must(
            "several fitted detectors",
            caller=caller,
            name="fitted",
            got=type(odd[0] if odd else values).__name__,
            remedy="Put them in a list, each after detector.fit(train)",
        )
        raise TypeError(msg)
    return listed


def _scored(one: Fitted, state: State, batch: Batch) -> Array:
    """Return the knownness of a batch: one number for each of its samples."""
    values = one.detector._score(state, batch)
    shape = getattr(values, "shape", None)
    if shape is None or tuple(shape) != (len(batch),):
        msg = _check.must(
            f"an array of one number per sample, shape ({len(batch)},)",
            caller=type(one.detector).__name__,
            name="the result of _score",
            got=type(values).__name__ if shape is None else f"shape {tuple(shape)}",
        )
        raise ValueError(msg)
    return values


def _named_arrays(caller: str, state: Any) -> dict[str, Array]:
    """Return what `_fit` made as a dict; raise unless it is names and arrays."""
    if not isinstance(state, Mapping):
        got = repr(state)[:80]
    else:
        odd = [name for name, value in state.items() if not _xp.is_array_api_obj(value)]
        if not odd:
            return dict(state)
        got = f"{type(state[odd[0]]).__name__} for {odd[0]!r}"
    msg = _check.must(
        "a mapping from names to arrays",
        caller=caller,
        name="the result of _fit",
        got=got,
        remedy="Wrap numbers and lists: numpy.asarray(value)",
    )
    raise TypeError(msg)


def _need_fields(kind: type[Detector]) -> None:
    """Raise unless all arguments of a class are fields of its dataclass."""
    names = {one.name for one in fields(kind)}
    various = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
    lost = [
        one.name
        for one in signature(kind).parameters.values()
        if one.name not in names and one.kind not in various
    ]
    if lost:
        msg = _check.must(
            "fields of a dataclass, or a saved detector would lose them",
            caller=kind.__name__,
            name="parameters",
            got=f"{', '.join(lost)} of an __init__",
            remedy="Write @dataclass(frozen=True, kw_only=True) above the class, and "
            f"in it a line such as '{lost[0]}: float = 1.0' instead of __init__",
        )
        raise TypeError(msg)


def _column(parts: list[Array], dtype: type) -> NDArray[Any]:
    """Concatenate the parts of all batches, then convert them to NumPy at once."""
    whole = parts[0] if len(parts) == 1 else _xp.array_namespace(*parts).concat(parts)
    column: NDArray[Any] = _xp.to_numpy(whole).astype(dtype, copy=False)
    # A new array: read-only, so that `Scores` does not copy it.
    return _check.frozen(column) if column.base is None else column


def _own_classes(one: Fitted, state: State, batch: Batch) -> Array:
    classes = one.detector._predict(state, batch)
    if classes is None:
        msg = (
            f"{type(one.detector).__name__}.score: outputs must have logits, got "
            f"features only. The predicted class is the argmax of the logits"
        )
        raise ValueError(msg)
    return classes


def _width(array: Array | None) -> int | None:
    return None if array is None else int(array.shape[1])


_REAL = "real floating"
_REMEDY = {
    "logits": "Give Outputs(logits=...)",
    "features": "Give Outputs(features=...), the input of the last linear layer",
    "labels": "Give Outputs(labels=...)",
    "head": "Give Outputs(weight=..., bias=...), the last linear layer with a bias "
    "of zeros if it has none",
}


def _listed(layers: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} ({width})" for name, width in layers)


def _are_finite(arrays: Iterable[Array]) -> bool:
    """Whether all numbers are finite. On a device one of them is fetched, once."""
    real = [a for a in arrays if _xp.array_namespace(a).isdtype(a.dtype, _REAL)]
    if not real:
        return True
    # A sum is finite only if all its terms are. Of huge terms it may be infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        total = reduce(add, (_xp.array_namespace(a).sum(a) for a in real))
    return math.isfinite(float(total)) or all(map(_is_finite, real))


def _is_finite(array: Array) -> bool:
    xp = _xp.array_namespace(array)
    is_real = xp.isdtype(array.dtype, _REAL)
    return not is_real or bool(xp.all(xp.isfinite(array)))


def _need_finite(caller: str, outputs: Outputs) -> None:
    """Raise and name the first infinite input, if the state is not finite."""
    for rows, batch in batches(outputs, None, progress=False):
        for name in ("logits", "features"):
            array = None if getattr(outputs, name) is None else getattr(batch, name)
            if array is None or _is_finite(array):
                continue
            is_bad = ~np.isfinite(_xp.to_numpy(array)).all(axis=1)
            msg = _check.must(
                "finite",
                caller=f"{caller}.fit",
                name=name,
                got=f"an infinite number in row {rows.start + int(is_bad.argmax())}",
                remedy="Leave such samples out; a network run in half precision "
                "overflows above 65504",
            )
            raise ValueError(msg)


def _need(caller: str, verb: str, needs: Iterable[str], outputs: Outputs) -> None:
    for need in _absent(needs, outputs):
        msg = f"{caller}.{verb}: outputs must have {need}, got none. {_REMEDY[need]}"
        raise ValueError(msg)


def _absent(needs: Iterable[str], outputs: Outputs) -> list[str]:
    """Return which of these the outputs do not have."""
    has_head = outputs.weight is not None and outputs.bias is not None
    return [
        need
        for need in needs
        if not (has_head if need == "head" else getattr(outputs, need) is not None)
    ]
