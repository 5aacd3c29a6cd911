"""Checks of the properties that every detector must have."""

import json
import pickle
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _plugins
from openset._types import CalibrationWarning
from openset.detectors import Detector, Fitted, find
from openset.metrics import auroc
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.scores import Scores
from openset.testing._example import N_CLASSES, example_outputs, in_library
from openset.testing._run import require, run_checks


@dataclass(frozen=True, eq=False)
class _Case:
    """A detector under test, with data it can be fitted to and scored on."""

    kind: type[Detector]
    params: Mapping[str, Any]
    exact: float
    float32: float
    libraries: Sequence[str]
    train: Outputs = field(default_factory=partial(example_outputs, 240, seed=1))
    test: Outputs = field(
        default_factory=partial(example_outputs, 90, seed=2, unknown=0.4)
    )

    def fit(self, train: Outputs) -> Fitted:
        return self.kind(**self.params).fit(train)

    def known(self, train: Outputs, test: Outputs) -> NDArray[np.float64]:
        return self.fit(train).score(test).known

    @cached_property
    def fitted(self) -> Fitted:
        return self.fit(self.train)

    @cached_property
    def scores(self) -> Scores:
        return self.fitted.score(self.test)

    def close(
        self, got: NDArray[Any], wanted: NDArray[Any], tolerance: float, what: str
    ) -> None:
        """Compare scores relative to their spread; infinities must match."""
        finite = wanted[np.isfinite(wanted)]
        spread = max(float(np.ptp(finite)) if finite.size else 0.0, 1e-300)
        with np.errstate(invalid="ignore"):
            gap = np.where(got == wanted, 0.0, np.abs(got - wanted)) / spread
        worst = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
        require(
            bool(gap[worst] <= tolerance),
            f"{what}: the score of sample {worst} is {got[worst]:.6g} instead of "
            f"{wanted[worst]:.6g}, {gap[worst]:.2g} of the spread of the scores (at "
            f"most {tolerance:g})",
        )


def check_detector(
    kind: type[Detector] | str,
    *,
    params: Mapping[str, Any] | None = None,
    exact: float = 1e-8,
    float32: float = 1e-3,
    libraries: Sequence[str] = ("torch",),
    skip: Sequence[str] = (),
) -> list[str]:
    """Check that a detector has the properties that every detector must have.

    It is fitted to outputs of a small synthetic network and scored many times: with
    samples in another order, in batches, in other precisions and array libraries, after
    saving and loading, alone and in a rejector.

    Parameters
    ----------
    kind
        The class, its name, or ``"package.module:Class"``.
    params
        Keyword arguments to build it with.
    exact
        Largest difference of scores that should be equal, relative to their spread.
    float32
        The same, between float32 and float64.
    libraries
        Array libraries besides NumPy that the detector supports; those not installed
        are skipped. Use ``()`` for a detector that needs NumPy arrays.
    skip
        Names of checks to skip.

    Returns
    -------
    list
        The names of the checks that passed.

    Raises
    ------
    AssertionError
        Lists every check that failed, with the reason.

    Examples
    --------
    >>> from openset.detectors import MSP
    >>> check_detector(MSP)[:2]
    ['facts', 'parameters']
    """
    checks = detector_checks(
        kind, params=params, exact=exact, float32=float32, libraries=libraries
    )
    title = kind if isinstance(kind, str) else kind.__name__
    return run_checks("check_detector", title, checks, skip=skip)


def detector_checks(
    kind: type[Detector] | str,
    *,
    params: Mapping[str, Any] | None = None,
    exact: float = 1e-8,
    float32: float = 1e-3,
    libraries: Sequence[str] = ("torch",),
) -> dict[str, Callable[[], None]]:
    """Return the checks of :func:`check_detector` by name, to be called one by one.

    For ``pytest.mark.parametrize``, so that every check is a separate test.
    """
    if not isinstance(kind, type | str):
        msg = _check.must(
            "a class of detectors, or its name",
            caller="check_detector",
            name="kind",
            got=repr(kind)[:80],
            remedy="Give the class, and its parameters as params={...}",
        )
        raise TypeError(msg)
    case = _Case(
        kind=find(kind) if isinstance(kind, str) else kind,
        params=params or {},
        exact=exact,
        float32=float32,
        libraries=[name for name in libraries if find_spec(name) is not None],
    )
    return {check.__name__.strip("_"): partial(check, case) for check in _CHECKS}


def _facts(case: _Case) -> None:
    kind = case.kind
    require(issubclass(kind, Detector), f"{kind.__name__} must subclass Detector")
    require(bool(kind.name), "name must be given")
    allowed = {"logits", "features"}
    needs = case.kind(**case.params).score_needs
    require(bool(needs), "score_needs must name the inputs of scoring")
    require(set(needs) <= allowed, f"score_needs must be among {sorted(allowed)}")
    allowed |= {"labels", "head"}
    is_known = set(kind.fit_needs) <= allowed
    require(is_known, f"fit_needs must be among {sorted(allowed)}")


def _parameters(case: _Case) -> None:
    recipe = case.kind(**case.params)
    plain = json.loads(json.dumps(recipe.params()))
    require(
        case.kind(**plain).params() == recipe.params(),
        "params(), written to JSON and read again, must build the same detector",
    )
    for name, constraint in case.kind.constraints.items():
        for value in constraint.bad():
            try:
                case.kind(**{**case.params, name: value})
            except (ValueError, TypeError) as error:
                expected = f"{name} must be"
                require(expected in str(error), f"{error} must say: {expected} ...")
            else:
                require(False, f"{name}={value!r} must raise")  # noqa: FBT003


def _ranking(case: _Case) -> None:
    found = auroc(case.scores)
    require(
        found > 0.5,
        f"known samples must score higher than unknown ones, got an AUROC of "
        f"{found:.3f}. Larger means more known: is the sign right?",
    )


def _shape(case: _Case) -> None:
    scores = case.scores
    require(scores.known.shape == (len(case.test),), "one score per sample")
    require(not np.isnan(scores.known).any(), "no score may be NaN")


def _classes(case: _Case) -> None:
    wanted = np.asarray(case.test.logits).argmax(axis=1)
    require(
        np.array_equal(case.scores.predicted, wanted),
        "the predicted class must be the argmax of the logits",
    )


def _missing_input(case: _Case) -> None:
    other = {"logits": "features", "features": "logits"}
    for need in case.fitted.detector.score_needs:
        only = {other[need]: getattr(case.test, other[need])}
        try:
            case.fitted.known(Outputs(**only))
        except ValueError as error:
            expected = f"must have {need}, got none"
            require(expected in str(error), f"{error} must say: {expected}")
        else:
            require(False, f"outputs without {need} must raise")  # noqa: FBT003


def _unknowns_in_fitting(case: _Case) -> None:
    try:
        case.fit(case.test)
    except ValueError:
        return
    require(False, "fit must refuse samples labelled -1")  # noqa: FBT003


def _sample_order(case: _Case) -> None:
    rng = np.random.default_rng(0)
    shuffled, order = (rng.permutation(len(part)) for part in (case.train, case.test))
    got = case.known(case.train.take(shuffled), case.test.take(order))
    case.close(got, case.scores.known[order], case.exact, "in another order")


def _class_numbers(case: _Case) -> None:
    order = np.roll(np.arange(N_CLASSES), 1)  # new class c was class order[c]
    place = np.append(np.argsort(order), -1)  # label -1 stays -1

    def renumbered(outputs: Outputs) -> Outputs:
        return Outputs(
            logits=outputs.logits[:, order],  # type: ignore[index]
            features=outputs.features,
            labels=place[outputs.labels],
            weight=outputs.weight[order],  # type: ignore[index]
            bias=outputs.bias[order],  # type: ignore[index]
        )

    got = case.known(renumbered(case.train), renumbered(case.test))
    case.close(got, case.scores.known, case.exact, "with classes renumbered")


def _batches(case: _Case) -> None:
    for size in (1, 7, 1000):
        got = case.fitted.score(case.test, batch_size=size).known
        what = f"in batches of {size}"
        case.close(got, case.scores.known, case.exact, what)


def _precision(case: _Case) -> None:
    single = [in_library(part, np, np.float32) for part in (case.train, case.test)]
    wanted, tolerance = case.scores.known, case.float32
    case.close(case.known(*single), wanted, tolerance, "in float32")
    got = case.known(single[0], case.test)
    case.close(got, wanted, tolerance, "fitted in float32")
    got = case.fitted.score(single[1]).known
    case.close(got, wanted, tolerance, "scored in float32")
    half = [in_library(part, np, np.float16) for part in (case.train, case.test)]
    single = [in_library(part, np, np.float32) for part in half]
    got = case.known(*half)
    case.close(got, case.known(*single), tolerance, "in half precision")


def _libraries(case: _Case) -> None:
    for name in case.libraries:
        xp = import_module(name)
        train, test = (in_library(part, xp) for part in (case.train, case.test))
        got = case.known(train, test)
        case.close(got, case.scores.known, case.exact, f"with {name}")
        got = case.fitted.to(test.logits).score(test).known
        case.close(got, case.scores.known, case.exact, f"moved to {name}")


def _inputs_untouched(case: _Case) -> None:
    for name in ("numpy", *case.libraries):
        xp = import_module(name)
        own = [in_library(part, xp) for part in (case.train, case.test)]
        case.known(*own)
        for before, after in zip((case.train, case.test), own, strict=True):
            for array in ("logits", "features", "weight", "bias"):
                values = np.from_dlpack(getattr(after, array))
                is_same = np.array_equal(values, getattr(before, array))
                require(is_same, f"fit and score must not change {array} ({name})")


def _memory_maps(case: _Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = {"train": case.train, "test": case.test}
        mapped = [
            Outputs.load(part.save(Path(folder) / name)) for name, part in parts.items()
        ]
        got = case.known(*mapped)
        case.close(got, case.scores.known, 0.0, "from memory-mapped files")
        del mapped  # before the files are deleted


def _saving(case: _Case) -> None:
    origin = _plugins.need_importable(case.kind, caller="check_detector")
    with tempfile.TemporaryDirectory() as folder:
        path = case.fitted.save(Path(folder) / "fitted.npz")
        loaded = Fitted.load(path, plugins=[origin])
    require(
        loaded.detector == case.fitted.detector,
        "the parameters must be the same after saving and loading",
    )
    for key, array in case.fitted.state.items():
        is_same = np.array_equal(loaded.state[key], array)
        require(is_same, f"the array {key} must be the same after saving and loading")
    got = loaded.score(case.test).known
    case.close(got, case.scores.known, 0.0, "saved and loaded")


def _other_processes(case: _Case) -> None:
    copied = pickle.loads(pickle.dumps(case.fitted))  # noqa: S301  # made just here
    got = copied.score(case.test).known
    case.close(got, case.scores.known, 0.0, "sent to another process")


def _calibrated(fitted: Fitted, outputs: Outputs) -> Rejector:
    labels = np.asarray(outputs.labels)
    known, surrogate = outputs.take(labels >= 0), outputs.take(labels < 0)
    with warnings.catch_warnings():  # made-up samples: their cautions help nobody
        warnings.simplefilter("ignore", CalibrationWarning)
        return Rejector.calibrate(fitted, known=known, surrogate=surrogate)


def _rejecting(case: _Case) -> None:
    origin = _plugins.need_importable(case.kind, caller="check_detector")
    rejector = _calibrated(case.fitted, case.test)
    with tempfile.TemporaryDirectory() as folder:
        saved = rejector.save(Path(folder) / "rejector")
        loaded = Rejector.load(saved, plugins=[origin])
        got = loaded.predict(case.test)
    is_same = np.array_equal(got, rejector.predict(case.test))
    require(is_same, "a rejector must decide the same after saving and loading")


def _graph(case: _Case) -> None:
    if not all(map(find_spec, ("torch", "onnx", "onnxscript", "onnxruntime"))):
        return
    onnx = import_module("openset.integrations.onnx")
    small = in_library(case.test, np, np.float32)
    rejector = _calibrated(case.fit(in_library(case.train, np, np.float32)), small)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rejector.onnx"
        onnx.export(rejector, path)
        session = import_module("onnxruntime").InferenceSession(path.read_bytes())
    wanted = [one.name for one in session.get_inputs()]
    inputs = {name: getattr(small, name) for name in wanted if name != "threshold"}
    got = session.run(["knownness"], inputs)[0].astype(np.float64)
    case.close(got, rejector.known(small), case.float32, "as an ONNX graph")


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _facts,
    _parameters,
    _ranking,
    _shape,
    _classes,
    _missing_input,
    _unknowns_in_fitting,
    _sample_order,
    _class_numbers,
    _batches,
    _precision,
    _libraries,
    _inputs_untouched,
    _memory_maps,
    _saving,
    _other_processes,
    _rejecting,
    _graph,
)
