"""`Trained`: a finished training run."""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from safetensors.torch import load_model, save_model
from torch import nn

from openset import _check, _io, _plugins, metrics
from openset._types import ArtefactError
from openset.outputs import Outputs
from openset.scores import Scores
from openset.train.batches import blank
from openset.train.learner import Learner, make_learner
from openset.train.model import (
    RunNetwork,
    TrainedNetwork,
    logit_scores,
    opened,
    predict,
)
from openset.train.plan import Plan, Spec

_SCHEMA = 1
_TABLES: dict[str, Any] = {"outputs": Outputs, "published": Scores, "scores": Scores}
_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A finished run: outputs of every part, scores of the test part, the log.

    Attributes
    ----------
    spec
        What was trained, as plain data.
    outputs
        `Outputs` by part: "train", "test" (or "test0", "test1", … with several test
        splits), and "validation", "negative", "surrogate" where the protocol has them.
    scores
        Test `Scores` by score: "published" (the one the method was published with),
        "maxlogit" and "msp": the scores of these detectors, msp as log-odds.
    published
        `Scores` of every part, by the score the method was published with.
    log
        One record per epoch.
    learner
        The trained module, in the process that trained it; None after :meth:`load`.
    shape
        Shape of one input tensor.
    folder
        Folder it was loaded from.
    """

    spec: dict[str, Any]
    outputs: dict[str, Outputs]
    scores: dict[str, Scores]
    published: dict[str, Scores]
    log: list[dict[str, Any]]
    learner: Any = field(default=None, repr=False)
    shape: tuple[int, ...] = ()
    folder: Path | None = None

    def __repr__(self) -> str:
        title = f"{self.spec['method']}, {self.spec['recipe']['epochs']} epochs"
        found = metrics.openauc(self.scores["published"])
        return f"Trained({title}, openauc={found:.4f})"

    def evaluate(self, score: str = "published") -> metrics.Evaluation:
        """Return all metrics of the test part, by one of the scores."""
        _check.one_of("Trained.evaluate", "score", score, tuple(self.scores))
        return metrics.evaluate(self.scores[score])

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the known classes, in the order of the logits."""
        return next(iter(self.outputs.values())).classes

    def model(self, network: Any = None) -> TrainedNetwork:
        """Return the trained network as a module: images or rows in, logits out.

        It takes images as uint8, shape (n, 3, h, w), and normalises them itself. Use it
        with `extract`, with `OpenSetModule`, or with `export` and its ``example``.

        Parameters
        ----------
        network
            After :meth:`load`, if your own model was trained: a model of the same
            structure; its weights are replaced.
        """
        spec = Spec.from_json(self.spec)
        learner = copy.deepcopy(self.learner) or self._restored(spec, network)
        learner.rotation = None  # it served the training alone
        return TrainedNetwork(learner).eval().requires_grad_(requires_grad=False)

    def _restored(self, spec: Spec, network: nn.Module | None) -> Learner:
        """Rebuild the learner of a finished run, with its weights."""
        caller = "Trained.model"
        if network is None and " " in spec.network:  # class name and hash of a module
            rule = f"a model like the one that was trained, {spec.network.split()[0]}"
            _check.fail(caller, "network", rule, None)
        learner = make_learner(spec, network or spec.network, blank(self.shape))
        path = (self.folder or Path()) / _WEIGHTS
        try:
            load_model(learner, path)
        except Exception as error:  # of safetensors, or that shapes differ
            rule = "weights that fit the network"
            _check.fail(caller, str(path), rule, error, error=ArtefactError)
        return learner

    def apply(self, inputs: Any, *, network: Any = None, **how: Any) -> Outputs:
        """Return the network's outputs of new samples.

        Parameters
        ----------
        inputs
            Images as uint8, shape (n, h, w) or (n, h, w, 3), or rows of numbers.
        network
            See :meth:`model`.
        **how
            As in :meth:`openset.extract.Network.apply`, such as `labels`, `step`,
            `layers` (by their names in ``model().backbone.named_modules()``) and
            ``invalid="keep"``. The device is that of the training.
        """
        found = self.opened(network)
        return found.apply(inputs, device=found.model.learner.device, **how)

    def opened(self, network: Any = None, *, name: str = "") -> RunNetwork:
        """Return the network with its preparation, as :func:`openset.extract.load`."""
        return opened(self.model(network), self.classes, name)

    def save(self, folder: str | Path) -> Path:
        """Write outputs, scores and, last, a summary, which marks the run as complete.

        The folder holds ``outputs/<part>.npz``, ``published/<part>.npz``,
        ``scores/<score>.npz``, ``weights.safetensors``, ``protocol.json`` and
        ``trained.json``.
        """
        folder = Path(folder)
        Spec.from_json(self.spec).protocol.save(folder / "protocol.json")
        for kind in _TABLES:
            for name, one in getattr(self, kind).items():
                one.save(folder / kind / f"{name}.npz")
        if self.learner is not None:
            with _io.replacing(folder / _WEIGHTS) as temporary:
                save_model(self.learner, str(temporary))
        names = ("openauc", "auroc", "accuracy")
        record = {
            "kind": "openset.Trained",
            "schema": _SCHEMA,
            "spec": self.spec,
            "test": {
                rule: {name: metrics.get(name).value(scores) for name in names}
                for rule, scores in self.scores.items()
            },
            "shape": self.shape,
            "log": self.log,
        }
        _io.put(folder / "trained.json", json.dumps(record, indent=1) + "\n")
        return folder

    @classmethod
    def load(cls, folder: str | Path, *, plugins: Sequence[str] = ()) -> Self:
        """Read a finished run.

        Parameters
        ----------
        folder
            Folder of the run.
        plugins
            Training methods to import, as ``"package.module:Class"``. :meth:`model` of
            a run with a method from outside needs it built in, registered, offered by
            an installed package, or named here: a file does not decide what runs.
        """
        for text in plugins:  # a method registers itself
            _plugins.imported(text, caller="Trained.load", name="plugins")
        folder = Path(folder)
        record = cls.record(folder)
        tables: dict[str, Any] = {
            name: {p.stem: kind.load(p) for p in sorted((folder / name).glob("*.npz"))}
            for name, kind in _TABLES.items()
        }
        about = {"spec": record["spec"], "log": record["log"]}
        about["shape"] = tuple(record["shape"])
        return cls(**about, **tables, folder=folder)

    @classmethod
    def made(cls, plan: Plan, learner: Learner, log: list[dict[str, Any]]) -> Self:
        """Return the run of a learner that is trained; test splits are put together."""
        cut, names = plan.cut, ("train", "validation", "negative", "surrogate")
        parts = {n: one for n in names if (one := getattr(cut, n)) is not None}
        several = len(cut.tests) > 1
        tests = {f"test{i}" if several else "test": t for i, t in enumerate(cut.tests)}
        found = {name: predict(learner, one) for name, one in (parts | tests).items()}
        outputs = {name: outputs for name, (outputs, _) in found.items()}
        published = {name: scores for name, (_, scores) in found.items()}
        scores = {"published": Scores.concat([published[name] for name in tests])}
        scores |= logit_scores(Outputs.concat([outputs[name] for name in tests]))
        return cls(
            spec=plan.spec.to_json(),
            outputs=outputs,
            scores=scores,
            published=published,
            log=log,
            learner=learner,
            shape=learner.shape,
        )

    @classmethod
    def of(cls, plan: Plan) -> Self | None:
        """Return the run if it is finished already; raise if another one is."""
        folder = plan.job.folder
        if folder is None or not (folder / "trained.json").exists():
            return None
        plan.spec.need_same(cls.record(folder)["spec"], folder)
        return cls.load(folder)

    @staticmethod
    def record(folder: Path) -> dict[str, Any]:
        """Return the summary of a finished run."""
        path = folder / "trained.json"
        with _io.naming(path):
            record = dict(json.loads(path.read_text("utf-8")))
        kind, schema = record.get("kind"), record.get("schema")
        if (kind, schema) != ("openset.Trained", _SCHEMA):
            rule, got = f"a summary of schema {_SCHEMA}", f"{kind} {schema}"
            _check.fail("Trained.load", str(path), rule, got, error=ArtefactError)
        return record


def of_run(folder: str | Path, *, plugins: Sequence[str] = ()) -> RunNetwork:
    """Open a folder of ``openset train``; `plugins` are methods it may import."""
    return Trained.load(folder, plugins=plugins).opened(name=str(folder))
