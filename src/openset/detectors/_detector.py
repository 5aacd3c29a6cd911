"""`Detector`: a method with its hyper-parameters, which can be fitted."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from openset import _check, _plugins, _xp
from openset._types import UNKNOWN, Array
from openset.detectors._batch import Batch, State, first, in_dtype
from openset.detectors._finite import are_finite, need_finite
from openset.detectors._fitted import Fitted
from openset.detectors._needs import (
    absent,
    need_inputs,
    warn_of_another_head,
    widths_of,
)
from openset.detectors._registry import REGISTRY
from openset.detectors.constraints import Constraint
from openset.outputs import Outputs, need_outputs
from openset.outputs.seen import hashes_of


@dataclass(frozen=True, kw_only=True)
class Detector(ABC):
    """A detector with its hyper-parameters; :meth:`fit` returns a :class:`Fitted`.

    A subclass defines `fit_state` (from training outputs to named arrays) and
    `score_batch` (from named arrays and a batch to one knownness per sample, larger =
    more known). Both compute with the caller's array library; checks, batching, argmax
    and the conversion to NumPy are done here.

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
    score_scale
        What the score is: ``"log-odds"``, ``"energy"``, ``"-distance"``...
    constraints
        Allowed values of the parameters (:mod:`openset.detectors.constraints`).
    casts_state
        Whether what it learnt is cast to the dtype of the outputs to score: for a
        `score_batch` that multiplies matrices.
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
    score_scale: ClassVar[str] = "-"
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    casts_state: ClassVar[bool] = False
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

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            """Say what to do first if a name of a fitted detector is used."""
            me = type(self).__name__
            msg = f"{me!r} object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(Fitted, name):
                train = "train" if self.learns else ""
                msg += f". Fit it first: {me}().fit({train}).{name}"
            raise AttributeError(msg)

    @property
    def recipes(self) -> "tuple[Detector, ...]":
        """The detectors this one combines; empty for others."""
        return ()

    @property
    def predicts_classes(self) -> bool:
        """Whether the detector predicts classes itself, from features alone."""
        first = (*self.recipes, self)[0]  # of a combination, the first one does
        return type(first).predict_batch is not Detector.predict_batch

    def fit_state(self, train: Outputs) -> State:
        """Compute named arrays from training outputs; by default none."""
        return {}

    def prepare_state(self, state: State, dtype: Any) -> State:
        """Prepare the state for scoring outputs of this dtype, once for all batches."""
        return in_dtype(state, dtype) if self.casts_state else state

    def refuse(self, outputs: Outputs) -> None:
        """Raise for outputs that would be scored, but mean nothing to this method."""
        return

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
        need_outputs(f"{type(self).__name__}.fit", "outputs", outputs)
        return self._fitted(cast(Outputs, outputs))

    def _fitted(self, outputs: Outputs) -> Fitted:
        caller = type(self).__name__
        need_inputs(caller, "fit", self.fit_needs, outputs)
        if "head" in self.fit_needs:
            warn_of_another_head(caller, outputs)
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
        try:
            state = _named_arrays(caller, self.fit_state(outputs))
        except np.linalg.LinAlgError as error:
            need_finite(caller, outputs)
            msg = _check.must(
                "small enough for products of two of them",
                caller=f"{caller}.fit",
                name="features",
                got=f"larger ones ({error})",
                remedy="Divide them by a constant",
            )
            raise ValueError(msg) from error
        except ValueError:
            need_finite(caller, outputs)  # infinite inputs can give NaN
            raise
        except TypeError as error:
            if "MPS" not in str(error):  # torch's word for the GPUs of Apple
                raise
            msg = _check.must(
                "on a device with float64",
                caller=f"{caller}.fit",
                name="outputs",
                got=_xp.describe(first(outputs)),
                remedy="Move them: outputs.to('cpu')",
            )
            raise TypeError(msg) from error
        if not are_finite(state.values()):
            need_finite(caller, outputs)
        return Fitted(
            detector=self,
            state=state,
            widths=widths_of(outputs),
            classes=outputs.classes,
            layers=self._layers_of(outputs),
            seen=hashes_of(outputs) if self.learns else {},
        )

    def _layers_of(self, outputs: Outputs) -> tuple[tuple[str, int], ...]:
        """Return the layers whose features it uses without telling them apart."""
        uses = "features" in (*self.fit_needs, *self.score_needs)
        return outputs.layers if uses else ()


def _named_arrays(caller: str, state: Any) -> dict[str, Array]:
    """Return what `fit_state` made as a dict; raise unless it is names and arrays."""
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
        name="the result of fit_state",
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
