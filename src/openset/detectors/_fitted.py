"""`Fitted`: a detector with what it learned, ready to score, to save and to load."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _npz, _xp
from openset._types import Array, ArtefactError
from openset.detectors._batch import Batch, State, batches, first, working_dtype
from openset.detectors._finite import need_numbers
from openset.detectors._needs import need_inputs, widths_of
from openset.detectors._registry import remade
from openset.outputs import (
    Outputs,
    named_layers,
    need_outputs,
    need_same_classes,
)
from openset.outputs.seen import Hashes
from openset.scores import Scores

if TYPE_CHECKING:
    from openset.detectors._detector import Detector  # it imports us


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted detector: its hyper-parameters and named arrays.

    `classes` are the names of the classes it was fitted on, if the outputs had names:
    outputs that name others, or in another order, are refused. `widths` are the numbers
    of classes and features; outputs of other widths are refused. `layers` are those
    whose features lay side by side, if the outputs named them. `seen` are hashes of the
    samples it was fitted on: thresholds are not chosen on these.
    """

    detector: "Detector"
    state: State
    widths: Mapping[str, int | None] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    layers: tuple[tuple[str, int], ...] = ()
    seen: Hashes = field(default_factory=dict)

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
        rows: NDArray[np.int64] | None = None,
    ) -> Scores:
        """Score labelled outputs in batches; the result is NumPy.

        The options are those of :func:`score_all`.
        """
        from openset.detectors import score_all  # noqa: PLC0415  # it imports us

        options: Any = {"batch_size": batch_size, "progress": progress, "rows": rows}
        return score_all([self], outputs, **options)[self.detector.name]

    def known(self, outputs: Outputs, *, batch_size: int | None = None) -> NDArray[Any]:
        """Return the knownness alone, for outputs without labels."""

        def one(batch: Batch) -> Array:
            return self._scored(self._ready(outputs), batch)

        return self._run(one, outputs, batch_size)

    def known_of_batch(self, batch: Batch) -> Array:
        """Return the knownness of a batch in its own array library, unchecked."""
        return self.detector.score_batch(self.prepared(batch.logits.dtype), batch)

    def prepared(self, dtype: Any) -> State:
        """Return the arrays as they are used to score outputs of this dtype."""
        if dtype not in self._states:
            self._states[dtype] = self.detector.prepare_state(self.state, dtype)
        return self._states[dtype]

    def probability(
        self, outputs: Outputs, *, batch_size: int | None = None
    ) -> NDArray[Any]:
        """Return the probability of being known, for methods that define one."""

        def one(batch: Batch) -> Array:
            values = self.detector.probability_batch(self._ready(outputs), batch)
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
            values = self.detector.class_probabilities_batch(
                self._ready(outputs), batch
            )
            if values is None:
                msg = f"{type(self.detector).__name__}: defines no class probabilities"
                raise TypeError(msg)
            return values

        return self._run(one, outputs, batch_size)

    def _scored(self, state: State, batch: Batch) -> Array:
        """Return the knownness of a batch: one number for each of its samples."""
        values = self.detector.score_batch(state, batch)
        shape = getattr(values, "shape", None)
        if shape is None or tuple(shape) != (len(batch),):
            msg = _check.must(
                f"an array of one number per sample, shape ({len(batch)},)",
                caller=type(self.detector).__name__,
                name="the result of score_batch",
                got=type(values).__name__ if shape is None else f"shape {tuple(shape)}",
            )
            raise ValueError(msg)
        return values

    def _run(
        self, one: Callable[[Batch], Array], outputs: Outputs, batch_size: int | None
    ) -> NDArray[Any]:
        self.check_outputs(outputs)
        cut = batches(outputs, batch_size, progress=False)
        parts = [_xp.to_numpy(one(batch)) for _, batch in cut]
        values = np.concatenate(parts).astype(np.float64, copy=False)
        need_numbers(self.detector, values)
        return values

    @cached_property
    def _states(self) -> dict[Any, State]:
        return {}  # prepared states by dtype: an index is built once, not per call

    def _ready(self, outputs: Outputs) -> State:
        return self.prepared(working_dtype(outputs))

    def check_outputs(self, outputs: Outputs) -> None:
        """Raise unless it can score these: inputs, widths, classes, layers, device."""
        caller = type(self.detector).__name__
        need_outputs(f"{caller}.score", "outputs", outputs)
        need_inputs(caller, "score", self.detector.score_needs, outputs)
        got = widths_of(outputs)
        for what, fitted in self.widths.items():
            if fitted is not None and got[what] is not None and fitted != got[what]:
                msg = _check.must(
                    f"{fitted}, as in fit or calibration",
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
            recipe.refuse(outputs)
        layers = self.layers
        # Arrays of a server's client do not say which layers they are of.
        if layers and outputs.layers and outputs.layers != layers:
            msg = _check.must(
                f"of the layers {_listed(layers)}, as in fit",
                caller=f"{caller}.score",
                name="outputs",
                got=_listed(outputs.layers),
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

    def with_widths_of(self, outputs: Outputs) -> "Fitted":
        """Return it for outputs as wide as these, where fit saw none (MSP, MaxLogit).

        Examples
        --------
        >>> from openset.detectors import MaxLogit
        >>> MaxLogit().fit().with_widths_of(Outputs(logits=[[1.0, 0.0]])).widths
        {'n_classes': 2, 'n_features': None}
        """
        seen = {name: n for name, n in self.widths.items() if n is not None}
        return replace(self, widths={**widths_of(outputs), **seen})

    def save(self, path: str | Path) -> Path:
        """Write one ``.npz``: the arrays, and the recipe as JSON. No pickle."""
        path = Path(path)
        _check.ending("Fitted.save", path, [".npz"])
        recipe = {
            "kind": "openset.Fitted",
            "schema": 1,
            "detector": self.detector.name,
            "classes": self.detector.origins(caller="Fitted.save"),
            "params": self.detector.params(),
            "widths": dict(self.widths),
            "class_names": list(self.classes),
        }
        if self.layers:
            recipe["layers"] = [list(pair) for pair in self.layers]
        arrays = {f"state.{n}": _xp.to_numpy(a) for n, a in self.state.items()}
        arrays |= {f"seen.{name}": hashes for name, hashes in self.seen.items()}
        _npz.save(path, {"recipe": np.array(json.dumps(recipe)), **arrays})
        return path

    @classmethod
    def load(cls, path: str | Path, *, plugins: Sequence[str] = ()) -> "Fitted":
        """Read what :meth:`save` wrote; the arrays are NumPy (see :meth:`to`).

        The file does not decide what is imported: a detector of your own must be
        registered, offered by an installed package, or named in `plugins`
        (``"package.module:Class"``).
        """
        path = Path(path)
        arrays, _ = _npz.load("Fitted.load", path)
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
        named: dict[str, dict[str, Any]] = {"state": {}, "seen": {}}
        for key, array in arrays.items():
            kind, _, name = key.partition(".")
            named.setdefault(kind, {})[name] = array
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
            classes = tuple(map(str, recipe.get("class_names", ())))
            layers = named_layers(recipe.get("layers", ()))
        except (KeyError, TypeError) as error:
            msg = f"Fitted.load: {path} is damaged ({error!r})"
            raise ArtefactError(msg) from error
        return cls(
            detector=detector,
            state=named["state"],
            widths=widths,
            classes=classes,
            layers=layers,
            seen=named["seen"],
        )


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


def _listed(layers: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} ({width})" for name, width in layers)
