"""Checks of the properties that every detector must have."""

import json
import pickle
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _plugins
from openset._types import CalibrationWarning
from openset.detectors import Detector, Fitted, find
from openset.metrics import auroc
from openset.outputs import Outputs, replaced
from openset.rejector import Rejector
from openset.testing.example import N_CLASSES, example_outputs, in_library


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
    found = find(kind) if isinstance(kind, str) else kind
    there = [name for name in libraries if find_spec(name) is not None]
    checks = _Checks(found, dict(params or {}), exact, float32, there)
    names = [name for name in vars(_Checks) if not name.startswith("_")]
    unknown = sorted(set(skip) - set(names))
    if unknown:
        msg = f"check_detector: skip must be among {', '.join(names)}, got {unknown}"
        raise ValueError(msg)
    failed, passed = [], []
    for name in (name for name in names if name not in skip):
        try:
            getattr(checks, name)()
        except Exception as error:  # a plug-in may raise anything
            failed.append(f"{name}: {type(error).__name__}: {error}")
        else:
            passed.append(name)
    if failed:
        count = f"{len(failed)} of {len(failed) + len(passed)} checks"
        title = f"check_detector: {found.__name__} fails {count}"
        raise AssertionError("\n- ".join([title, *failed]))
    return passed


def require(holds: Any, sentence: str) -> None:
    """Raise AssertionError with this sentence unless it holds."""
    if not holds:
        raise AssertionError(sentence)


@dataclass(eq=False)
class _Checks:
    """One public method for each check."""

    _kind: type[Detector]
    _params: dict[str, Any]
    _exact: float
    _float32: float
    _libraries: list[str]
    _train = example_outputs(240, seed=1)
    _test = example_outputs(90, seed=2, unknown=0.4)

    def _fit(self, train: Outputs) -> Fitted:
        return self._kind(**self._params).fit(train)

    @cached_property
    def _fitted(self) -> Fitted:
        return self._fit(self._train)

    @cached_property
    def _scores(self) -> Any:
        return self._fitted.score(self._test)

    def _close(
        self, scored: Any, tolerance: float, what: str, wanted: Any = None
    ) -> None:
        """Compare scores relative to their spread; infinities must match."""
        got: NDArray[Any] = np.asarray(getattr(scored, "known", scored))
        wanted = self._scores.known if wanted is None else wanted
        finite = wanted[np.isfinite(wanted)]
        spread = max(float(np.ptp(finite)) if finite.size else 0.0, 1e-300)
        with np.errstate(invalid="ignore"):
            gap = np.where(got == wanted, 0.0, np.abs(got - wanted)) / spread
        worst = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
        away = f"{got[worst]:.6g} instead of {wanted[worst]:.6g}, {gap[worst]:.2g}"
        rule = f"of the spread of the scores (at most {tolerance:g})"
        sentence = f"{what}: the score of sample {worst} is {away} {rule}"
        require(gap[worst] <= tolerance, sentence)

    def _refused(self, call: Any, words: str, what: str) -> None:
        try:
            call()
        except (ValueError, TypeError) as error:
            require(words in str(error), f"{error} must say: {words}")
        else:
            require(False, f"{what} must raise")  # noqa: FBT003

    def facts(self) -> None:
        require(issubclass(self._kind, Detector), "it must subclass Detector")
        needs = self._kind(**self._params).score_needs
        require(needs, "score_needs must name the inputs of scoring")
        allowed = ("logits", "features", "labels", "head")
        require(set(needs) <= {*allowed[:2]}, f"score_needs: among {allowed[:2]}")
        require(set(self._kind.fit_needs) <= {*allowed}, f"fit_needs: among {allowed}")

    def parameters(self) -> None:
        params = self._kind(**self._params).params()
        plain = json.loads(json.dumps(params))
        what = "params(), written to JSON and read, must build the same detector"
        require(self._kind(**plain).params() == params, what)
        for name, rule in self._kind.constraints.items():
            for value in rule.bad():
                changed = {**self._params, name: value}
                words = f"{name} must be"
                self._refused(lambda c=changed: self._kind(**c), words, f"{changed}")

    def ranking(self) -> None:
        found = auroc(self._scores)
        rule = "known samples must score higher than unknown ones: is the sign right?"
        require(found > 0.5, f"{rule} The AUROC is {found:.3f}")

    def classes(self) -> None:
        wanted = np.asarray(self._test.logits).argmax(axis=1)
        rule = "the predicted class must be the argmax of the logits"
        require(np.array_equal(self._scores.predicted, wanted), rule)

    def missing_input(self) -> None:
        for need in self._fitted.detector.score_needs:
            rest = replaced(self._test, **{need: None})
            words = f"must have {need}, got none"
            self._refused(lambda o=rest: self._fitted.known(o), words, f"no {need}")

    def unknowns_in_fitting(self) -> None:
        self._refused(lambda: self._fit(self._test), "known samples", "label -1 in fit")

    def sample_order(self) -> None:
        one, two = (np.random.default_rng(0).permutation(n) for n in (240, 90))
        got = self._fit(self._train.take(one)).score(self._test.take(two))
        self._close(got, self._exact, "in another order", self._scores.known[two])

    def class_numbers(self) -> None:
        order = np.roll(np.arange(N_CLASSES), 1)  # new class c was class order[c]
        place = np.append(np.argsort(order), -1)  # label -1 stays -1

        def renumbered(outputs: Any) -> Outputs:
            head = {name: getattr(outputs, name)[order] for name in ("weight", "bias")}
            logits, labels = outputs.logits[:, order], place[outputs.labels]
            return replaced(outputs, logits=logits, labels=labels, **head)

        got = self._fit(renumbered(self._train)).score(renumbered(self._test))
        self._close(got, self._exact, "with classes renumbered")

    def batches(self) -> None:
        for size in (1, 7, 1000):
            got = self._fitted.score(self._test, batch_size=size)
            self._close(got, self._exact, f"in batches of {size}")

    def precision(self) -> None:
        both = (self._train, self._test)
        train, test = (in_library(part, np, np.float32) for part in both)
        fitted = self._fit(train)
        self._close(fitted.score(test), self._float32, "in float32")
        self._close(fitted.score(self._test), self._float32, "fitted in float32")
        self._close(self._fitted.score(test), self._float32, "scored in float32")
        half = [in_library(part, np, np.float16) for part in both]
        train, test = (in_library(part, np, np.float32) for part in half)
        wanted, got = (self._fit(a).score(b) for a, b in ((train, test), half))
        self._close(got, self._float32, "in half precision", wanted.known)

    def libraries(self) -> None:
        for name in ("numpy", *self._libraries):
            xp = import_module(name)
            train, test = (in_library(part, xp) for part in (self._train, self._test))
            self._close(self._fit(train).score(test), self._exact, f"with {name}")
            moved = self._fitted.score(test)
            self._close(moved, self._exact, f"fitted on NumPy, scored with {name}")
            for before, after in ((self._train, train), (self._test, test)):
                for array in ("logits", "features", "weight", "bias"):
                    values = np.from_dlpack(getattr(after, array))
                    is_same = np.array_equal(values, getattr(before, array))
                    require(is_same, f"fit and score must not change {array} ({name})")

    def files(self) -> None:
        origin = _plugins.need_importable(self._kind, caller="check_detector")
        labels = np.asarray(self._test.labels)
        known, other = (self._test.take((labels < 0) == side) for side in (False, True))
        with warnings.catch_warnings():  # made-up samples: their cautions help nobody
            warnings.simplefilter("ignore", CalibrationWarning)
            rejector = Rejector.calibrate(self._fitted, known=known, surrogate=other)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            parts = {"train": self._train, "test": self._test}
            mapped = [Outputs.load(o.save(place / n)) for n, o in parts.items()]
            got = self._fit(mapped[0]).score(mapped[1])
            self._close(got, 0.0, "from memory-mapped files")
            del mapped  # before the files are deleted
            path = self._fitted.save(place / "fitted.npz")
            loaded = Fitted.load(path, plugins=[origin])
            saved = rejector.save(place / "rejector")
            again = Rejector.load(saved, plugins=[origin]).predict(self._test)
        rule = "the parameters must be the same after saving and loading"
        require(loaded.detector == self._fitted.detector, rule)
        self._close(loaded.score(self._test), 0.0, "saved and loaded")
        copied = pickle.loads(pickle.dumps(self._fitted))  # noqa: S301  # made here
        self._close(copied.score(self._test), 0.0, "sent to another process")
        is_same = np.array_equal(again, rejector.predict(self._test))
        require(is_same, "a rejector must decide the same after saving and loading")
