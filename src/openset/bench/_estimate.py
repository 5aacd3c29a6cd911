"""Estimate the duration of a study, from finished cells or from data sizes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

from openset import _backends, runs
from openset.bench import _network, _protocols
from openset.bench._plan import OutputsSource, Plan, Task, folder_of
from openset.bench._run import protocols_of
from openset.bench._study import MLPModel, NetworkModel, ProtocolEntry
from openset.bench._worker import Locations
from openset.datasets import default_root
from openset.protocols import Protocol

# Multiplications per second of one thread of a typical machine, and the fixed cost of a
# cell. Rough values, used before any cell has run.
_SPEED = 3e9
_OVERHEAD = 0.05
_ITERATIONS = 100  # assumed, for a solver that stops by itself


@dataclass(frozen=True)
class Estimate:
    """Total seconds of work left, and the source of the estimate."""

    seconds: float
    source: str
    n_unknown: int  # networks or cells without an estimate

    def on(self, workers: int) -> float:
        """Return the seconds it takes with this many workers."""
        return self.seconds / max(workers, 1)


def estimate(
    made: Plan,
    out: str | Path | None = None,
    *,
    root: str | Path | None = None,
) -> Estimate:
    """Estimate the work that is left of a study.

    If cells have run, the estimate is based on their times; otherwise on the sizes of
    data and models, which is accurate to a factor of a few. `root` is the folder of the
    data sets.
    """
    out = None if out is None else Path(out)
    done = set() if out is None else runs.finished(out)
    left = [task for task in made.tasks if task.id not in done]
    if not left:
        return Estimate(0.0, "nothing is left to run", 0)
    if out is not None and done:
        return _measured(made, left, out)
    return _guessed(made, left, default_root() if root is None else Path(root))


def _measured(made: Plan, left: Sequence[Task], out: Path) -> Estimate:
    cells = runs.read_cells(out)
    took = [
        (c.key["protocol"], c.key["detector"], c.provenance["seconds"]) for c in cells
    ]
    of_cells = _means(took)
    trained = [
        (s.key["protocol"], s.key["model"], note["provenance"]["seconds"])
        for s in made.networks()
        if (note := _network.note(folder_of(s, out, made.study.base)))
    ]
    of_networks = _means(trained)
    missing = [
        s
        for s in made.networks(left)
        if not folder_of(s, out, made.study.base).exists()
    ]
    found = [_nearest(of_cells, t.key["protocol"], t.key["detector"]) for t in left]
    found += [_nearest(of_networks, s.key["protocol"], s.key["model"]) for s in missing]
    known = [seconds for seconds in found if seconds is not None]
    source = f"from {len(cells)} finished cells"
    return Estimate(sum(known), source, len(found) - len(known))


def _means(took: Iterable[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    table = defaultdict(list)
    for protocol, who, seconds in took:
        for key in ((protocol, who), ("", who), ("", "")):
            table[key].append(seconds)
    return {key: mean(values) for key, values in table.items()}


def _nearest(
    table: Mapping[tuple[str, str], float], protocol: str, who: str
) -> float | None:
    for key in ((protocol, who), ("", who), ("", "")):
        if key in table:
            return table[key]
    return None


def _guessed(made: Plan, left: Sequence[Task], root: Path) -> Estimate:
    study = made.study
    place = Locations(Path(), study.base, root)
    drawn = protocols_of(made, place)
    sizes = {p.title: _size(p, drawn[p.title][0], place) for p in study.protocols}
    seconds, n_unknown = 0.0, 0
    for source in made.networks(left):
        n_train, _, d, n_classes = sizes[source.key["protocol"]]
        work = _training(source, n_train, d, n_classes)
        n_unknown += work is None
        seconds += work or 0.0
    for task in left:
        size = sizes.get(task.key["protocol"])
        if size is None:
            n_unknown += 1
            continue
        n_train, n_test, d, n_classes = size
        # Logits and, at worst, a comparison with every training sample.
        work = n_test * (n_train + n_classes) * d
        seconds += _OVERHEAD + work / _SPEED
    return Estimate(
        seconds,
        "a rough guess from data sizes; more accurate once cells have run",
        n_unknown,
    )


def _size(
    entry: ProtocolEntry, protocol: Protocol, place: Locations
) -> tuple[int, int, int, int]:
    """Return training samples, test samples, numbers per sample, known classes."""
    fold = 0 if entry.folds > 1 else None
    cut = _protocols.cut(entry, protocol, place.base, place.root, fold=fold)
    shape = getattr(cut.train.inputs, "shape", (len(cut.train), 1))
    width = 1
    for n in shape[1:]:
        width *= n
    return len(cut.train), len(cut.test), width, len(cut.train.classes)


def _training(
    source: OutputsSource, n_train: int, d: int, n_classes: int
) -> float | None:
    model = source.model
    if isinstance(model, NetworkModel) or model is None:
        return None
    layers = (
        [d, *model.hidden, n_classes] if isinstance(model, MLPModel) else [d, n_classes]
    )
    products = sum(a * b for a, b in pairwise(layers))
    passes = model.epochs if isinstance(model, MLPModel) else _ITERATIONS
    # The backward pass costs twice the forward pass.
    return _OVERHEAD + 3 * n_train * products * passes / _SPEED


def n_workers(backend: str, jobs: int) -> int:
    """Return how many workers a run on this machine has."""
    _backends.check(backend, jobs)
    if backend == "sequential":
        return 1
    return _backends.cores() if jobs == -1 else jobs
