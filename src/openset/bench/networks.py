"""The networks of a study: trained once; their outputs are saved for all detectors."""

import json
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from openset import _backends, _check, _io, _plugins, runs
from openset._backends import Outcome
from openset._optional import optional
from openset.bench import protocols
from openset.bench.study import Component, Study
from openset.datasets import Cut, Samples
from openset.outputs import Outputs
from openset.protocols import Protocol


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """What a key distinguishes from others, also from run to run."""

    key: dict[str, Any]

    @property
    def id(self) -> str:
        """Hash of the key."""
        return runs.identity(self.key)


@dataclass(frozen=True, kw_only=True)
class Network(Keyed):
    """A network to train on a fold of a draw of a protocol entry, or saved outputs."""

    entry: Any = None
    draw: int = 0
    fold: int = 0
    n_tests: int = 1
    model: Any = None
    method: Any = None
    saved: Any = None


@dataclass(frozen=True, kw_only=True)
class Task(Keyed):
    """A cell to run: a detector on the outputs of a network; `split` of its test."""

    network: Network
    detector: Component
    split: int = 0


@dataclass(frozen=True, kw_only=True)
class Place:
    """A study, its protocols by entry, and the folders of run, data sets and shell.

    It travels to the workers.
    """

    study: Study
    drawn: dict[str, list[Protocol]]
    run: Path
    root: Path
    here: Path

    def file(self, part: str, task: Task) -> Path:
        """Return the file of a cell in one of the folders."""
        return self.run / part / f"{task.id}.json"

    def folder(self, network: Network) -> Path:
        """Return the folder of a network."""
        if network.saved is not None:
            return self.study.base / network.saved.path
        return self.run / "networks" / network.id

    def is_trained(self, task: Task) -> bool:
        """Whether the network of a cell is there: the last of its files."""
        network = task.network
        if network.saved is not None:
            return True
        last = "trained.json" if network.model.is_network else "test"
        return (self.folder(network) / last).exists()

    def is_finished(self, task: Task) -> bool:
        """Whether a cell is there."""
        return self.file("cells", task).exists()

    def protocol(self, network: Network) -> Any:
        """Return the protocol of a network; None for saved outputs."""
        entry = network.entry
        return None if entry is None else self.drawn[entry.title][network.draw]

    def settle(self, tasks: Iterable[Task], done: Outcome, what: str = "") -> None:
        """Record the error that a call ended with, if any, as that of these cells."""
        for task in tasks if done.error else ():
            record = {"id": task.id, "key": task.key, "error": f"{what}{done.error}"}
            record |= {"traceback": done.traceback}
            _io.put(self.file("failed", task), json.dumps(record, indent=1))

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Limit the threads, and let this process find the study's plug-ins.

        The number of threads changes the order of sums, and so the last digits of
        results: it must depend on the study only, not on how many workers share a
        machine.
        """
        if not self.run.is_dir():
            remedy = "Use a shared file system"
            rule = "a folder that every worker can access under this path"
            _check.fail("bench", str(self.run), rule, "none on this machine", remedy)
        folders = self.study.base, self.here
        with threadpool_limits(self.study.threads), _plugins.searching(*folders):
            yield


def grouped(tasks: Iterable[Task], key: Callable[[Task], Hashable]) -> list[list[Task]]:
    """Group cells with equal keys, in the order of the first of each."""
    found: dict[Hashable, list[Task]] = {}
    for task in tasks:
        found.setdefault(key(task), []).append(task)
    return list(found.values())


def make(tasks: Sequence[Task], place: Place) -> None:
    """Train the networks of cells, at the same time if there are several.

    They are of one model. If a network fails, so do its cells.
    """
    waiting = grouped(tasks, lambda task: task.network.id)
    is_run = tasks[0].network.model.is_network
    if is_run:
        optional("torch", "torch")  # before threads are limited: also its own
    with place.prepared():
        if is_run and len(waiting) > 1:
            with suppress(Exception):  # each shows its own error below
                _train([some[0].network for some in waiting], place)
        left = [some for some in waiting if not place.is_trained(some[0])]
        calls = [([some[0].network], place) for some in left]
        work = _train if is_run else _fit
        for done in _backends.run(work, calls, backend="sequential"):
            place.settle(left[done.number], done, "its network failed: ")


def _cut(network: Network, place: Place) -> Cut:
    """Return the samples of a network, with the negatives it is trained with."""
    return protocols.cut(
        *(network.entry, place.protocol(network), place.study.base, place.root),
        fold=network.fold,
        negatives=network.model.negatives,
    )


def _train(networks: Sequence[Network], place: Place) -> None:
    """Train with `openset.train`, which goes on from its last checkpoints."""
    fit: Any = optional("openset.train.fit", "torch")
    pairs = []
    for one in networks:
        settings = {"method": one.method.name, "options": one.method.params}
        settings |= {"data": _cut(one, place), "out": place.folder(one)}
        settings |= {"seed": one.key["seed"], "progress": False}
        settings |= {k: v for k, v in one.model.params.items() if k != "negatives"}
        pairs.append(fit.job_and_execution(**settings))
    fit.fit_jobs([job for job, _ in pairs], pairs[0][1])


def _fit(networks: Sequence[Network], place: Place) -> None:
    """Train a classifier of scikit-learn; write its outputs on every part."""
    from sklearn import exceptions, pipeline, preprocessing  # noqa: PLC0415  # slow

    (network,) = networks
    model, cut = network.model, _cut(network, place)
    made = model.classifier()
    if "random_state" in made.get_params() and "random_state" not in model.params:
        made.set_params(random_state=network.key["seed"])
    # Not per pixel: pixels at the border are nearly constant, and images of another
    # data set would be thousands of standard deviations away there.
    is_table = cut.train.kind == "table"
    scaler = preprocessing.StandardScaler() if is_table else "passthrough"
    fitted = pipeline.make_pipeline(scaler, made)
    with warnings.catch_warnings():  # stopping at the number of epochs is intended
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        # If interrupted, scikit-learn's networks only warn and count as fitted; outputs
        # of a half-trained network must not be saved.
        warnings.filterwarnings("error", "Training interrupted by user", UserWarning)
        try:
            fitted.fit(_numbers(cut.train), cut.train.labels)
        except UserWarning as error:
            raise KeyboardInterrupt from error
    with _io.replacing_folder(place.folder(network)) as folder:
        for part in ("train", "validation", "negative", "surrogate", "test"):
            if (samples := getattr(cut, part)) is not None:
                _outputs(fitted, samples).save(folder / part)


def _numbers(samples: Samples) -> NDArray[np.float64]:
    """Return one row of numbers per sample; pixels are scaled to [0, 1]."""
    inputs = samples.inputs
    if not isinstance(inputs, np.ndarray):  # images in files
        inputs = np.stack([np.asarray(inputs[i]) for i in range(len(inputs))])
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    return flat / 255 if inputs.dtype == np.uint8 else flat


def _outputs(fitted: Any, samples: Samples) -> Outputs:
    """Return outputs in float32; the features of an MLP are its last hidden layer."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

    from openset.integrations import sklearn_outputs  # noqa: PLC0415

    inputs, last = fitted[:-1].transform(_numbers(samples)), fitted[-1]
    if isinstance(last, MLPClassifier):
        for weight, bias in zip(last.coefs_[:-1], last.intercepts_, strict=False):
            inputs = np.maximum(inputs @ weight + bias, 0)
        head = LogisticRegression()
        head.coef_, head.intercept_ = last.coefs_[-1].T, last.intercepts_[-1]
        head.classes_, last = last.classes_, head
    found = sklearn_outputs.outputs_of(last, inputs)
    arrays: dict[str, Any] = {
        name: np.asarray(array, np.float32)
        for name in ("logits", "features", "weight", "bias")
        if (array := getattr(found, name)) is not None
    }
    arrays |= {"groups": samples.groups, "classes": samples.classes}
    return Outputs(labels=samples.labels, **arrays)
