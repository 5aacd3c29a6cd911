"""`Fitted`: a detector with what it learned; `score_all`: several in one pass."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _npz, _xp
from openset._types import Array, ArtefactError, InvalidSamplesError
from openset.detectors.batch import (
    Batch,
    State,
    batch_rows,
    column,
    first,
    in_batches,
    working_dtype,
)
from openset.outputs import Outputs, need_outputs, need_same_classes, replaced
from openset.outputs.seen import Hashes
from openset.scores import Scores

if TYPE_CHECKING:
    from openset.detectors.base import Detector  # it imports us

_KIND = "openset.Fitted"
_REMEDY = {
    "logits": "Give Outputs(logits=...)",
    "features": "Give Outputs(features=...), the input of the last linear layer",
    "labels": "Give Outputs(labels=...)",
    "head": "Give Outputs(weight=..., bias=...), the last linear layer with a bias "
    "of zeros if it has none",
}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted detector: its hyper-parameters and named arrays (NumPy).

    It scores outputs of every library, on every device.
    `classes` are the names of the classes it was fitted on, if the outputs had names:
    outputs that name others, or in another order, are refused. `widths` are the numbers
    of classes and features; outputs of other widths are refused. `seen` are hashes of
    the samples it was fitted on: thresholds are not chosen on these.
    """

    detector: "Detector"
    state: State
    widths: Mapping[str, int | None] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    seen: Hashes = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # Without what was prepared from the arrays.
        return {name: v for name, v in self.__dict__.items() if name != "_states"}

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n}{tuple(a.shape)}" for n, a in self.state.items())
        return f"Fitted({self.detector!r}; {arrays or 'no state'})"

    def score(self, outputs: Outputs, **options: Any) -> Scores:
        """Score labelled outputs in batches; the result is NumPy.

        The options are those of :func:`score_all`: batch_size, progress, rows.
        """
        return score_all([self], outputs, **options)[self.detector.name]

    def known(self, outputs: Outputs, *, batch_size: int | None = None) -> NDArray[Any]:
        """Return the knownness alone, for outputs without labels."""
        return self._run("score_batch", outputs, batch_size)

    def prepared(self, like: Array, dtype: Any) -> State:
        """Return the state in the library and on the device of an array, to score.

        It is moved, and cast to the dtype, once.
        """
        key = _xp.array_namespace(like), str(_xp.device(like)), dtype
        if key not in self._states:
            state = {name: _xp.moved(array, like) for name, array in self.state.items()}
            self._states[key] = self.detector.prepare_state(state, dtype)
        return self._states[key]

    def probability(self, outputs: Outputs) -> NDArray[Any]:
        """Return the probability of being known, for methods that define one."""
        return self._run("probability_batch", outputs)

    def class_probabilities(self, outputs: Outputs) -> NDArray[Any]:
        """Return the probability of each class, for methods that define them.

        Shape (n, C), or (n, C + 1) for methods with a class of unknowns: it comes last,
        so that the label -1 of unknowns indexes it.
        """
        return self._run("class_probabilities_batch", outputs)

    def _run(self, method: str, outputs: Outputs, batch_size: Any = None) -> Any:
        self.check_outputs(outputs)
        state = self.prepared(first(outputs), working_dtype(outputs))
        size = _rows_at_once([self], outputs) if batch_size is None else batch_size
        parts = in_batches(lambda b: self._of(method, state, b), outputs, size)
        return self._need_numbers(column(parts, np.float64))

    def _of(self, method: str, state: State, batch: Batch) -> Array:
        """Return the result of a method for a batch: a row for each of its samples."""
        values, name = getattr(self.detector, method)(state, batch), type(self.detector)
        if values is None:
            what = method.removesuffix("_batch").replace("_", " ")
            msg = f"{name.__name__}: defines no {what}"
            raise TypeError(msg)
        shape, n_axes = getattr(values, "shape", ()), 1 + method.startswith("class")
        if tuple(shape[:1]) != (len(batch),) or len(shape) != n_axes:
            rule = f"an array of one number per sample, shape ({len(batch)},)"
            got = f"{type(values).__name__} of shape {tuple(shape)}"
            _check.fail(name.__name__, f"the result of {method}", rule, got)
        return values

    def _need_numbers(
        self, values: NDArray[Any], chosen: NDArray[np.int64] | None = None
    ) -> NDArray[Any]:
        """Raise if there is NaN; `chosen` are the samples' numbers, if not all."""
        if np.isnan(values.min()):  # min propagates NaN: one pass, no mask
            bad = np.unique(np.nonzero(np.isnan(values))[0])
            rows = bad if chosen is None else chosen[bad]
            got = f"NaN for {bad.size} samples, first in row {rows[0]}"
            kind, remedy = type(self.detector).__name__, self.detector.undefined
            error = partial(InvalidSamplesError, rows=rows.tolist())
            _check.fail(kind, "result", "free of NaN", got, remedy, error)
        return values

    @cached_property
    def _states(self) -> dict[Any, State]:
        return {}  # prepared states: an index is built once, not per call

    def check_outputs(self, outputs: Outputs) -> None:
        """Raise unless it can score these: inputs, widths, classes."""
        caller = f"{type(self.detector).__name__}.score"
        need_outputs(caller, "outputs", outputs)
        need_inputs(caller, self.detector.score_needs, outputs)
        self.need_widths(caller, widths_of(outputs))
        of = "the outputs it was fitted on"
        need_same_classes(caller, outputs, self.classes, of=of, name="outputs")

    def need_widths(
        self, caller: str, got: Mapping[str, int | None], of: str = ""
    ) -> None:
        """Raise unless a network has as many classes and features as in fit."""
        for what, found in got.items():
            wanted = self.widths.get(what)
            if wanted and found and wanted != found:
                rule = f"{wanted}, as in fit or calibration"
                _check.fail(caller, what + of, rule, found)

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
        about, arrays = self.parts(caller="Fitted.save")
        _npz.save(path, arrays, {"kind": _KIND, "schema": 1, **about})
        return path

    def parts(self, *, caller: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all that a file must hold: plain data, and named arrays."""
        about = {
            "name": self.detector.name,
            "params": self.detector.params(),
            "classes": self.detector.origins(caller=caller),
            "widths": dict(self.widths),
            "names": list(self.classes),
        }
        arrays = {f"state.{name}": array for name, array in self.state.items()}
        return about, arrays | {f"seen.{name}": a for name, a in self.seen.items()}

    @classmethod
    def of_parts(
        cls,
        about: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        **where: Any,
    ) -> "Fitted":
        """Return what :meth:`parts` gave; `where` is as in :func:`remade`."""
        from openset.detectors.base import remade  # noqa: PLC0415  # it imports us

        return cls(
            detector=remade(about["name"], about["params"], about["classes"], **where),
            state=_npz.group(arrays, "state"),
            widths=dict(about["widths"]),
            classes=tuple(map(str, about["names"])),
            seen=_npz.group(arrays, "seen"),
        )

    @classmethod
    def load(cls, path: str | Path, *, plugins: Sequence[str] = ()) -> "Fitted":
        """Read what :meth:`save` wrote.

        The file does not decide what is imported: a detector of your own must be
        registered, offered by an installed package, or named in `plugins`
        (``"package.module:Class"``).
        """
        caller, path = "Fitted.load", Path(path)
        arrays, about = _npz.load(caller, path, kind=_KIND)
        try:
            return cls.of_parts(
                about, arrays, caller=caller, path=path, plugins=plugins
            )
        except ArtefactError:
            raise
        except (KeyError, ValueError, TypeError) as error:
            msg = f"{caller}: {path} holds no detector, or is damaged ({error!r})"
            raise ArtefactError(msg) from error


def score_all(
    fitted: Iterable[Fitted] | Mapping[str, Fitted],
    outputs: Outputs,
    *,
    batch_size: int | None = None,
    progress: bool = False,
    rows: NDArray[np.int64] | None = None,
) -> dict[str, Scores]:
    """Score several fitted detectors in one pass over logits and features.

    Reductions (largest logit, argmax, log-sum-exp, norms) are shared, and the data are
    read in batches, on all cores: beyond the result, memory does not grow with the
    number of samples. Scores do not depend on the number of cores.

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
    rows
        Numbers of the samples to score; by default all. The scores are those of
        ``outputs.take(rows)``, but nothing is copied.
    """
    fitted = by_name("score_all", fitted)
    need_outputs("score_all", "outputs", outputs)
    if outputs.labels is None:
        remedy = "Use fitted.known(outputs) for the knownness of unlabelled data"
        _check.fail("score", "outputs", "labelled", "no labels", remedy)
    for one in fitted.values():
        one.check_outputs(outputs)
        if outputs.logits is None and not one.detector.predicts_classes:
            rule = "outputs with logits, whose argmax is the predicted class"
            name = type(one.detector).__name__
            _check.fail(f"{name}.score", "outputs", rule, "features only")
    like, dtype = first(outputs), working_dtype(outputs)
    pairs = [(one, one.prepared(like, dtype)) for one in fitted.values()]

    def scored(batch: Batch) -> list[Array]:
        known = [one._of("score_batch", state, batch) for one, state in pairs]
        if outputs.logits is not None:
            return [*known, batch.top_class]
        return known + [one._of("predict_batch", state, batch) for one, state in pairs]

    size = _rows_at_once(fitted.values(), outputs) if batch_size is None else batch_size
    parts = in_batches(scored, outputs, size, rows=rows, progress=progress)
    columns = list(zip(*parts, strict=True))
    predicted = [column(one, np.int64) for one in columns[len(fitted) :]]
    if outputs.logits is not None:
        predicted *= len(fitted)  # all of them predict the class of the largest logit
    own = {"labels": outputs.labels, "groups": outputs.groups, "ids": outputs.ids}
    if rows is not None:
        own = {n: None if one is None else one[rows] for n, one in own.items()}
    return {
        name: Scores(
            **own,  # type: ignore[arg-type]  # labels are there
            predicted=predicted[i],
            known=one._need_numbers(column(columns[i], np.float64), rows),
            n_classes=outputs.n_classes,
        )
        for i, (name, one) in enumerate(fitted.items())
    }


def _rows_at_once(fitted: Iterable[Fitted], outputs: Outputs) -> int:
    """Return how long a batch is: as memory allows for the arrays that are read."""
    needs = {name for one in fitted for name in one.detector.score_needs}
    if outputs.logits is not None and "features" not in needs:
        outputs = replaced(outputs, features=None)
    return batch_rows(outputs)


def need_inputs(caller: str, needs: Iterable[str], outputs: Outputs) -> None:
    """Raise if the outputs lack one of these, and say how to give it."""
    for one in absent(needs, outputs):
        msg = f"{caller}: outputs must have {one}, got none. {_REMEDY[one]}"
        raise ValueError(msg)


def absent(needs: Iterable[str], outputs: Outputs) -> list[str]:
    """Return which of these the outputs do not have."""
    arrays = {"head": ("weight", "bias")}
    return [
        need
        for need in needs
        if any(getattr(outputs, name) is None for name in arrays.get(need, (need,)))
    ]


def widths_of(outputs: Outputs) -> dict[str, int | None]:
    """Return the numbers of classes and of features; None for what is not there."""
    features = outputs.features
    return {
        "n_classes": outputs.n_classes,
        "n_features": None if features is None else int(features.shape[1]),
    }


def need_fitted(caller: str, values: Any) -> list[Fitted]:
    """Return fitted detectors as a list; raise if one is not fitted."""
    is_several = isinstance(values, Iterable)
    listed: list[Any] = list(values) if is_several else []
    odd = [one for one in listed if not isinstance(one, Fitted)]
    if odd or not is_several:
        rule, got = "several fitted detectors", type([*odd, values][0]).__name__
        remedy = "Put them in a list, each after detector.fit(train)"
        _check.fail(caller, "fitted", rule, got, remedy, TypeError)
    return listed


def by_name(
    caller: str, fitted: Iterable[Fitted] | Mapping[str, Fitted]
) -> dict[str, Fitted]:
    """Return fitted detectors by their names, or by those of a mapping."""
    if isinstance(fitted, Mapping):
        need_fitted(caller, fitted.values())
        return dict(fitted)
    listed = need_fitted(caller, fitted)
    named = {one.detector.name: one for one in listed}
    if len(named) != len(listed):
        rule, got = "detectors of different names", ", ".join(named)
        remedy = "Pass a mapping: {'first': ..., 'second': ...}"
        _check.fail(caller, "fitted", rule, got, remedy)
    return named
