"""The plan of a study: its networks and cells, each with an id."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from openset.bench import _protocols
from openset.bench._plugins_used import metric_for_workers
from openset.bench._study import (
    PUBLISHED,
    Calibration,
    Component,
    Model,
    NetworkModel,
    ProtocolEntry,
    Saved,
    Study,
)
from openset.metrics import Metric
from openset.runs import identity


@dataclass(frozen=True, kw_only=True)
class OutputsSource:
    """The source of the outputs of some cells: a network to train, or a folder.

    `repeat` is the number of its protocol; it has `n_tests` test splits.
    """

    key: dict[str, Any]
    seed: int
    entry: ProtocolEntry | None = None
    repeat: int = 0
    n_tests: int = 1
    model: Model | None = None
    method: Component | None = None
    saved: Saved | None = None

    @property
    def id(self) -> str:
        """Hash of the key."""
        return identity(self.key)

    @property
    def draw(self) -> int:
        """Which draw of the classes it is trained on; folds of a draw share it."""
        return self.repeat // self._folds

    @property
    def fold(self) -> int | None:
        """Which fold of the draw; None without cross-validation."""
        return None if self._folds == 1 else self.repeat % self._folds

    @property
    def _folds(self) -> int:
        return 1 if self.entry is None else self.entry.folds

    @property
    def gpus(self) -> float:
        """Number of GPUs it needs."""
        return 0 if self.model is None else self.model.gpus


@dataclass(frozen=True, kw_only=True)
class Task:
    """One cell to run: a detector on the outputs of a source, on one test split."""

    source: OutputsSource
    detector: Component
    calibrate: Calibration | None
    threads: int
    key: dict[str, Any]
    id: str
    metrics: tuple[str | Metric, ...] = ()
    split: int = 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All cells of a study."""

    study: Study
    tasks: tuple[Task, ...]

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def ids(self) -> set[str]:
        """Ids of all cells."""
        return {task.id for task in self.tasks}

    def networks(self, tasks: Iterable[Task] | None = None) -> list[OutputsSource]:
        """Return the networks that the tasks need, without duplicates."""
        listed = self.tasks if tasks is None else tasks
        found = {id(t.source): t.source for t in listed if t.source.saved is None}
        return list(found.values())


def plan(study: Study) -> Plan:
    """List every cell of a study, without reading data.

    Examples
    --------
    >>> from openset.bench import parse
    >>> text = b'''
    ... protocols: [{kind: holdout, data: digits, known: 6, unknown: 4, repeats: 2}]
    ... models: [{kind: mlp}]
    ... detectors: [msp, energy, {name: knn, k: 5}]
    ... seeds: 2'''
    >>> made = plan(parse(text, "study.yaml"))
    >>> len(made), len(made.networks())
    (12, 4)
    """
    tasks = []
    named = tuple(
        metric_for_workers(row) for row in study.rows() if row.kind != "operational"
    )
    for source in [*_trained(study), *map(_saved, study.outputs)]:
        for detector in study.detectors:
            if detector.name == PUBLISHED and not isinstance(
                source.model, NetworkModel
            ):
                continue  # only training methods have a published score
            recipe = {
                "source": source.key["recipe"],
                "detector": detector.model_dump(exclude={"label"}),
                "calibrate": study.calibrate and study.calibrate.model_dump(),
                "threads": study.threads,
            }
            for split in range(source.n_tests):
                key = source.key | {
                    "detector": detector.title,
                    "seed": source.seed,
                    "recipe": _digest(recipe),
                }
                if source.n_tests > 1:
                    key["split"] = split
                task = Task(
                    source=source,
                    detector=detector,
                    calibrate=study.calibrate,
                    threads=study.threads,
                    key=key,
                    id=identity(key),
                    metrics=named,
                    split=split,
                )
                tasks.append(task)
    return Plan(study=study, tasks=tuple(tasks))


def _trained(study: Study) -> Iterable[OutputsSource]:
    for entry, model in product(study.protocols, study.models):
        # Training methods apply to networks only; other models train in their own way.
        methods = study.methods if isinstance(model, NetworkModel) else [None]
        splits = _protocols.n_tests(entry, study.base)
        repeats = range(len(splits))
        for repeat, method, seed in product(repeats, methods, study.seeds):
            recipe = {
                "entry": entry.recipe,
                "model": model.model_dump(exclude={"name", "gpus", "together"}),
                "method": method and method.model_dump(exclude={"label"}),
                "threads": study.threads,
            }
            key = {
                "protocol": entry.title,
                "repeat": repeat,
                "model": model.title,
                "method": "" if method is None else method.title,
                "detector": "",
                "seed": seed,
                "recipe": _digest(recipe),
            }
            yield OutputsSource(
                key=key,
                seed=seed,
                entry=entry,
                repeat=repeat,
                n_tests=splits[repeat],
                model=model,
                method=method,
            )


def _saved(saved: Saved) -> OutputsSource:
    key = {
        "protocol": saved.name,
        "repeat": saved.repeat,
        "model": saved.model,
        "method": saved.method,
        "detector": "",
        "seed": saved.seed,
        "recipe": _digest(saved.model_dump()),
    }
    return OutputsSource(
        key=key,
        seed=saved.seed,
        repeat=saved.repeat,
        n_tests=saved.n_tests,
        saved=saved,
    )


def _digest(recipe: Any) -> str:
    # Tuples equal lists, and the order of keys does not matter.
    return identity({"recipe": json.loads(json.dumps(recipe, default=str))})


def folder_of(source: OutputsSource, run: Path, base: Path) -> Path:
    """Return the folder of a source's outputs."""
    if source.saved is not None:
        return base / source.saved.path
    return run / "networks" / source.id
