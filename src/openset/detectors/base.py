"""`Detector`: a method with its hyper-parameters, which can be fitted; by name."""
# ruff: noqa: PLC0414  # what a detector is made of is taken from here

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, FrozenInstanceError, asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, NoReturn, cast, dataclass_transform

import numpy as np

from openset import _check, _plugins, _xp
from openset._types import UNKNOWN, ArtefactError
from openset._types import Array as Array
from openset.detectors.batch import Batch as Batch
from openset.detectors.batch import State as State
from openset.detectors.batch import Training as Training
from openset.detectors.batch import first, in_dtype, working_dtype
from openset.detectors.fitted import Fitted, absent, need_inputs, widths_of
from openset.outputs import Outputs, leading_rows, need_outputs
from openset.outputs.seen import hashes_of

# Of half precision, or of weights in 8 bits; another layer differs by far more.
_ROUNDING = 0.05
_TINY = 1e-300  # all logits of a sample may be equal


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Detector(ABC):
    """A detector with its hyper-parameters; :meth:`fit` returns a :class:`Fitted`.

    A subclass is a frozen dataclass, with a decorator or without: its annotated
    attributes are the parameters. It defines `fit_state` (from training outputs, as
    NumPy arrays, to named arrays) and `score_batch` (from named arrays and a batch, in
    the caller's array library, to one knownness per sample, larger = more known). A
    score without meaning is NaN, which is reported with the numbers of the samples.
    Checks, batching, argmax and the conversion to NumPy are done here.

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
    costs
        Arithmetic of fitting, and of scoring a sample, as text.
    paper
        Author and year.
    score_scale
        What the score is: ``"log-odds"``, ``"energy"``, ``"-distance"``...
    constraints
        Allowed values by parameter, as said with ``option``
        (:mod:`openset.detectors.constraints`).
    casts_state
        Whether what it learnt is kept in the dtype of the training outputs and cast to
        that of the outputs to score; without, in the dtype that `fit_state` returned.
    undefined
        When a score has no meaning, as a remedy: for the error.
    rejects_by_argmax
        Whether one of its class probabilities is for "unknown", and it was published
        with the rule to reject a sample if that one is the largest.
    """

    name: ClassVar[str]
    fit_needs: ClassVar[tuple[str, ...]] = ()
    score_needs: ClassVar[tuple[str, ...]] = ("logits",)
    costs: ClassVar[tuple[str, str]] = ("-", "-")
    paper: ClassVar[str] = "-"
    score_scale: ClassVar[str] = "-"
    constraints: ClassVar[Mapping[str, Any]] = {}
    casts_state: ClassVar[bool] = True
    undefined: ClassVar[str] = "Look for infinite logits or features"
    rejects_by_argmax: ClassVar[bool] = False

    def __init_subclass__(cls, *, register: bool = True, listed: bool = True) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()
        own = {n: one for n, one in vars(cls).items() if isinstance(one, Field)}
        rules = {n: o.metadata["rule"] for n, o in own.items() if "rule" in o.metadata}
        cls.constraints = {**cls.constraints, **rules}
        if "__dataclass_fields__" not in vars(cls):  # it may be a copy with slots
            dataclass(frozen=True, kw_only=True)(cls)
            # Inherited; here they would forbid a decorator to do this once more.
            del cls.__setattr__, cls.__delattr__
        if register and not cls.__name__.startswith("_"):
            REGISTRY.register(cls.name, cls, listed=listed)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        """Refuse: what was fitted with other parameters would not change."""
        msg = f"cannot assign to field {name!r}"
        raise FrozenInstanceError(msg)

    def __post_init__(self) -> None:
        """Convert numbers to Python's types, and check the constraints."""
        # NumPy's types would promote float32 scores to float64, and are not valid JSON.
        for name, value in list(vars(self).items()):
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
        for name, rule in self.constraints.items():
            rule.check(type(self).__name__, name, getattr(self, name))

    @property
    def recipes(self) -> "tuple[Detector, ...]":
        """The detectors this one combines; empty for others."""
        return ()

    @property
    def predicts_classes(self) -> bool:
        """Whether the detector predicts classes itself, from features alone."""
        first = (*self.recipes, self)[0]  # of a combination, the first one does
        return type(first).predict_batch is not Detector.predict_batch

    def fit_state(self, train: Outputs) -> Mapping[str, Any]:
        """Compute named arrays from training outputs (NumPy); by default none."""
        return {}

    def prepare_state(self, state: State, dtype: Any) -> State:
        """Prepare the state for scoring outputs of this dtype, once for all batches."""
        return in_dtype(state, dtype) if self.casts_state else state

    @abstractmethod
    def score_batch(self, state: State, batch: Batch) -> Array:
        """Knownness of each sample, larger = more known."""

    def probability_batch(self, state: State, batch: Batch) -> Array | None:
        """Knownness as a probability, for the methods that define one."""
        return None

    def class_probabilities_batch(self, state: State, batch: Batch) -> Array | None:
        """One probability per class, for the methods that define them."""
        return None

    def predict_batch(self, state: State, batch: Batch) -> Array | None:
        """Class of each sample, for methods that classify from features alone."""
        return None

    def params(self) -> dict[str, Any]:
        """Return the keyword arguments that build this recipe.

        Raises for a class with an ``__init__`` of its own whose arguments are not
        fields of a dataclass: they would be missing in what is saved.
        """
        found = asdict(self)  # type: ignore[call-overload]  # a subclass is one
        lost = signature(type(self)).parameters.keys() - {*found, "args", "kwargs"}
        if lost:
            rule = "fields of a dataclass, or a saved detector would lose them"
            got = f"{', '.join(sorted(lost))} of an __init__"
            remedy = "Write @dataclass(frozen=True, kw_only=True) above the class"
            _check.fail(type(self).__name__, "parameters", rule, got, remedy, TypeError)
        return found

    def origins(self, *, caller: str) -> list[dict[str, Any]]:
        """Return the classes and packages that this detector needs.

        Raises for a class that cannot be imported, so that whatever is saved can be
        loaded.
        """
        used = {type(one).name: type(one) for one in (self, *self.recipes)}
        return [
            {
                "name": name,
                "class": _plugins.need_importable(kind, caller=caller),
                "distribution": _plugins.distribution(kind),
            }
            for name, kind in used.items()
        ]

    @property
    def learns(self) -> bool:
        """Whether the detector must be fitted on training outputs.

        Examples
        --------
        >>> from openset.detectors import KNN, MSP
        >>> MSP().learns, KNN().learns
        (False, True)
        """
        return type(self).fit_state is not Detector.fit_state

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
        return tuple(absent(needs, outputs))

    def fit(self, outputs: Outputs | None = None) -> Fitted:
        """Learn from the outputs of the *training* split (known samples only).

        They may be omitted for a detector that needs no fitting.
        """
        if outputs is None and not self.learns:
            return Fitted(detector=self, state={})
        caller = f"{type(self).__name__}.fit"
        need_outputs(caller, "outputs", outputs)
        given = cast(Outputs, outputs)
        need_inputs(caller, self.fit_needs, given)
        if given.labels is not None and given.labels.min() == UNKNOWN:
            got = f"{np.count_nonzero(given.labels == UNKNOWN)} with label {UNKNOWN}"
            remedy = (
                "Use outputs.take(outputs.labels >= 0); unknown samples are for "
                "calibration, not for fitting"
            )
            _check.fail(caller, "outputs", "known samples only", got, remedy)
        train = given if _xp.is_numpy_array(first(given)) else given.to("numpy")
        if "head" in self.fit_needs:
            _check_head(caller, train)
        try:
            made = self.fit_state(train)
        except ValueError:
            _need_finite(caller, train)  # infinite inputs can give NaN
            raise
        state = {name: _xp.to_numpy(value) for name, value in made.items()}
        if self.casts_state:
            state = in_dtype(state, working_dtype(train))
        if not all(np.isfinite(a).all() for a in state.values() if a.dtype.kind == "f"):
            _need_finite(caller, train)
        return Fitted(
            detector=self,
            state=state,
            widths=widths_of(train),
            classes=train.classes,
            seen=hashes_of(train) if self.learns else {},
        )


class OfFeatures(Detector, register=False):
    """A detector that scores and classifies samples by their features alone."""

    fit_needs: ClassVar[tuple[str, ...]] = ("features", "labels")
    score_needs = ("features",)

    @abstractmethod
    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        """Knownness and class of each sample."""

    def _judged(self, state: State, batch: Batch) -> tuple[Array, Array]:
        # The same recipe may have been fitted twice. The state is kept with the result:
        # its identity would be that of another one once it is gone.
        key = id(self), id(state)
        return batch.once(key, lambda: (self.judge_batch(state, batch), state))[0]

    def score_batch(self, state: State, batch: Batch) -> Array:
        return self._judged(state, batch)[0]

    def predict_batch(self, state: State, batch: Batch) -> Array | None:
        return self._judged(state, batch)[1]


def _need_finite(caller: str, train: Outputs) -> None:
    """Raise and name the first infinite input."""
    for name in ("logits", "features"):
        array: Any = getattr(train, name)
        ends = [] if array is None else [array.min(axis=1), array.max(axis=1)]
        bad = np.flatnonzero(np.isinf(ends).any(axis=0))
        if bad.size:
            remedy = "Leave such samples out; half precision overflows above 65504"
            got = f"an infinite number in row {bad[0]}"
            _check.fail(caller, name, "finite", got, remedy)


def _check_head(caller: str, train: Outputs) -> None:
    """Warn if weight and bias are not of the layer between features and logits.

    Logits may be scaled by one number, shifted by one for each sample (as logarithms of
    probabilities are), and rounded.
    """
    for name in ("weight", "bias"):  # memory maps have not been checked before
        if np.isnan(getattr(train, name)).any():
            _check.fail(caller, name, "free of NaN", "NaN")
    features, logits = (
        leading_rows(array, mapped=True) for array in (train.features, train.logits)
    )
    if features is None or logits is None:
        return
    weight, bias = (np.asarray(a, dtype=float) for a in (train.weight, train.bias))
    with np.errstate(over="ignore", invalid="ignore"):
        computed = features @ weight.T + bias
    rows = np.isfinite(computed).all(axis=1) & np.isfinite(logits).all(axis=1)
    given, found = (z[rows] - z[rows].mean(axis=1)[:, None] for z in (logits, computed))
    scale = max(float(np.vdot(given, found)), 0) / max(np.vdot(found, found), _TINY)
    away, length = (float(np.linalg.norm(z)) for z in (given - scale * found, given))
    share = away / max(length, _TINY)
    if share > _ROUNDING:
        msg = (
            f"{caller}: features, weight and bias do not fit the logits: "
            f"features @ weight.T + bias differs from them by {share:.0%} of their "
            "spread. Give the inputs of the last linear layer as features, and its own "
            "weight and bias; for a cosine classifier, features and weights of length 1"
        )
        warnings.warn(msg, stacklevel=3)


REGISTRY: _plugins.Registry[type[Detector]] = _plugins.Registry(
    "openset.detectors",
    "a detector",
    _plugins.subclass_of(Detector, "a detector"),
    package="detectors",
)


def names() -> list[str]:
    """Return the names of all detectors: those of openset by letter, then guests."""
    ours = sorted(REGISTRY.built_in())
    return [*ours, *(name for name in REGISTRY.names() if name not in ours)]


def find(
    name: str, *, caller: str = "detectors.find", argument: str = "name"
) -> type[Detector]:
    """Return the class of a name, or of ``package.module:Class``.

    Examples
    --------
    >>> find("postmax") is find("openset.detectors:PostMax")
    True
    """
    return REGISTRY.find(name, caller=caller, argument=argument)


def options(name: str) -> list[str]:
    """Return the names of a detector's parameters.

    Examples
    --------
    >>> options("postmax")
    ['norm', 'only_correct']
    """
    return list(signature(find(name, caller="detectors.options")).parameters)


def make(name: str, **params: Any) -> Detector:
    """Build a detector from its name, or from ``package.module:Class``.

    As options come from command lines and files, too, None and "none" mean the same:
    the one that the option allows is used.

    Examples
    --------
    >>> make("knn", k=5).k
    5
    >>> make("postmax", norm=None).norm, make("knn", bank="none").bank
    ('none', None)
    """
    kind = find(name, caller="detectors.make")
    rules = kind.constraints
    return kind(
        **{key: rules[key].read(v) if key in rules else v for key, v in params.items()}
    )


def remade(
    name: str,
    params: Mapping[str, Any],
    classes: Iterable[Mapping[str, Any]],
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
        what = "a detector this version of openset cannot make"
        msg = f"{caller}: {path} holds {what} ({error})"
        raise ArtefactError(msg) from error
