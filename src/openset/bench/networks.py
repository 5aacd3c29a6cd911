"""The networks of a study: trained once; their outputs are saved for all detectors."""

import json
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from openset import _check, _io, _plugins, runs
from openset._optional import optional
from openset.bench import dependencies, protocols
from openset.bench.study import NetworkModel, Study, classifier
from openset.datasets import Cut, Samples
from openset.metrics import Metric
from openset.outputs import Outputs

Errors = dict[str, tuple[str, str]]
"""Messages and tracebacks of what failed, by id."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network to train, or saved outputs; its key distinguishes it from others."""

    key: dict[str, Any]
    entry: Any = None
    protocol: Any = None
    fold: int = 0
    n_tests: int = 1
    model: Any = None
    method: Any = None
    saved: Any = None

    @property
    def id(self) -> str:
        """Hash of the key."""
        return runs.identity(self.key)

    @property
    def seed(self) -> int:
        """Of its weights, and of everything else random in training."""
        return int(self.key["seed"])


@dataclass(frozen=True, kw_only=True)
class Place:
    """A study, its metrics, and folders: of the run, of the data sets, and the current.

    It travels to the workers.
    """

    study: Study
    run: Path
    root: Path
    here: Path
    metrics: tuple[str | Metric, ...]

    @property
    def base(self) -> Path:
        """The folder of the study file."""
        return self.study.base

    def file(self, part: str, task: Any) -> Path:
        """Return the file of a cell in one of the folders."""
        return self.run / part / f"{task.id}.json"

    def of(self, network: Network) -> Path:
        """Return the folder of a network's outputs."""
        if network.saved is not None:
            return self.base / network.saved.path
        return self.run / "networks" / network.id


@contextmanager
def prepared(place: Place, key: Mapping[str, Any]) -> Iterator[None]:
    """Limit the threads, and make the plug-ins of the study known to this process.

    The number of threads changes the order of sums, and so the last digits of results:
    it must depend on the study only, not on how many workers share a machine.
    """
    torch: Any = sys.modules.get("torch")
    if not place.run.is_dir():
        remedy = "Use a shared file system"
        rule = "a folder that every worker can access under this path"
        _check.fail("bench", str(place.run), rule, "none on this machine", remedy)
    before = torch and torch.get_num_threads()
    n = place.study.threads
    with threadpool_limits(n), _plugins.searching(place.base, place.here):
        if torch:
            torch.set_num_threads(n)
        try:
            dependencies.know(key)
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


@contextmanager
def recording(errors: Errors, *ids: str) -> Iterator[None]:
    """Keep an error as that of these networks or cells; the others go on."""
    try:
        yield
    except Exception as error:  # an error is a result here
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        errors |= dict.fromkeys(ids, ("\n".join(lines), traceback.format_exc()))


def make(networks: Sequence[Network], place: Place) -> Errors:
    """Train networks of one model, at the same time if there are several.

    Returns the error of each that failed, by its id.
    """
    left = [one for one in networks if not place.of(one).exists()]
    errors: Errors = {}
    with recording(errors, *(one.id for one in left)):
        if isinstance(networks[0].model, NetworkModel):
            optional("torch", "torch")  # before threads are limited: also its own
            if len(left) > 1:
                with recording({}), prepared(place, left[0].key):
                    _train_together(left, place)  # each shows its own error below
        for one in left:
            with recording(errors, one.id), prepared(place, one.key):
                _make(one, place)
    return errors


def _make(network: Network, place: Place) -> None:
    """Train a network and write its outputs.

    Interrupted training continues from the checkpoint in ``training/``.
    """
    started = time.time()
    with _io.replacing_folder(place.of(network)) as folder:
        note: dict[str, Any] = {"key": network.key, "curve": None}
        if isinstance(network.model, NetworkModel):
            note["curve"] = _train(network, place, folder)
        else:
            for part, outputs in fit(network.model, _cut(network, place), network.seed):
                outputs.save(folder / part)
        note["provenance"] = runs.provenance(started, seed=network.seed)
        (folder / "network.json").write_text(json.dumps(note, indent=1), "utf-8")
    shutil.rmtree(_unfinished(network, place), ignore_errors=True)


def _unfinished(network: Network, place: Place) -> Path:
    return place.run / "training" / network.id


def _cut(network: Network, place: Place) -> Cut:
    """Return the samples of a network, with the negatives it is trained with."""
    return protocols.cut(
        *(network.entry, network.protocol, place.base, place.root),
        fold=network.fold,
        negatives=getattr(network.model, "negatives", ""),
    )


def _settings(network: Network, place: Place) -> dict[str, Any]:
    """Return the keywords of `openset.train.fit`."""
    return {
        "method": network.method.name,
        "options": network.method.params,
        "data": _cut(network, place),
        "seed": network.seed,
        "out": _unfinished(network, place),
        "progress": False,
        **network.model.settings,
    }


def _train_together(networks: Sequence[Network], place: Place) -> None:
    """Train networks at the same time; :func:`_train` then finds them finished."""
    fit: Any = optional("openset.train.fit", "torch")
    pairs = [fit.job_and_execution(**_settings(one, place)) for one in networks]
    fit.fit_jobs([job for job, _ in pairs], pairs[0][1])


def _train(network: Network, place: Place, folder: Path) -> list[dict[str, Any]] | None:
    """Train with `openset.train`; return the curves of the test part, if recorded."""
    train: Any = optional("openset.train", "torch")
    done = train.fit(**_settings(network, place))
    for name, outputs in done.outputs.items():
        outputs.save(folder / name)
        done.published[name].save(folder / "published" / f"{name}.npz")
    curve = [
        {"epoch": line["epoch"] + 1, "loss": line["loss"]}
        | {k.removeprefix("test_"): v for k, v in line.items() if k[:5] == "test_"}
        for line in done.log
        if "test_accuracy" in line
    ]
    return curve or None


def fit(model: Any, cut: Cut, seed: int) -> Iterator[tuple[str, Outputs]]:
    """Train a classifier of scikit-learn; yield its outputs on every part."""
    from sklearn import exceptions, pipeline, preprocessing  # noqa: PLC0415  # slow

    made = classifier(model.estimator)(**model.params)
    if "random_state" in made.get_params() and "random_state" not in model.params:
        made.set_params(random_state=seed)
    # Not per pixel: pixels at the border are nearly constant, and images of another
    # data set would be thousands of standard deviations away there.
    is_scaled = model.scale and cut.train.kind == "table"
    scaler = preprocessing.StandardScaler() if is_scaled else "passthrough"
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
    for part in ("train", "validation", "negative", "surrogate", "test"):
        samples = getattr(cut, part)
        if samples is not None:
            yield part, _outputs(fitted, samples)


def _numbers(samples: Samples) -> NDArray[np.float64]:
    """Return one row of numbers per sample; pixels are scaled to [0, 1]."""
    inputs = samples.inputs
    is_text = samples.kind == "text"
    if not is_text and not isinstance(inputs, np.ndarray):  # images in files
        images = [np.asarray(inputs[i]) for i in range(len(inputs))]
        sizes = {one.shape for one in images}
        inputs = np.stack(images) if len(sizes) == 1 else None
    if is_text or inputs is None:
        got = "texts" if is_text else f"images of sizes {sorted(sizes)}"
        remedy = "Use embeddings of them, outputs of a network, or a model of the kind "
        remedy += "network, for images with params: {side: 32}"
        _check.fail("bench", "data", "tables or images of one size", got, remedy)
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    return flat / 255 if inputs.dtype == np.uint8 else flat


def _outputs(fitted: Any, samples: Samples) -> Outputs:
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

    from openset.integrations import sklearn_outputs as sklearn  # noqa: PLC0415

    inputs = _numbers(samples)
    features, last = sklearn.features_of(fitted, inputs), fitted[-1]
    if isinstance(last, MLPClassifier):
        for weight, bias in zip(last.coefs_[:-1], last.intercepts_, strict=False):
            features = np.maximum(features @ weight + bias, 0)
        weight, bias = last.coefs_[-1].T, last.intercepts_[-1]
        if weight.shape[0] == 1:  # two classes: half the decision value for each
            weight = np.concatenate([-weight / 2, weight / 2])
            bias = np.concatenate([-bias / 2, bias / 2])
        head = {"weight": weight, "bias": bias}
        logits = features @ weight.T + bias
    else:
        logits = sklearn.logits_of(fitted, inputs)
        head = sklearn.linear_head(fitted, logits, features)
    return Outputs(
        logits=logits.astype(np.float32),
        features=features.astype(np.float32),
        labels=samples.labels,
        groups=samples.groups,
        classes=samples.classes,
        **{name: array.astype(np.float32) for name, array in head.items()},
    )
