"""Named benchmarks: scores of your network's outputs, beside published ones.

Outputs of a network are files in one folder, those that :meth:`Benchmark.files` lists.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io, _xp, detectors, metrics, selection
from openset.bench.definitions import Benchmark, Column, load, names
from openset.detectors import Detector, Fitted
from openset.metrics import Metric
from openset.outputs import Outputs
from openset.results import Result, Results
from openset.scores import Scores

__all__ = ["Table", "evaluate", "load", "names"]

_CALLER = "named.evaluate"
_COMPARED = 4096  # first samples that tell whether two files have the same ones


@dataclass(frozen=True)
class Row:
    """A row of the table as it is shown, in percent."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Scores of detectors on a benchmark.

    Parameters
    ----------
    results
        One row per detector, data set and metric, all metrics of the benchmark; and the
        closed-set accuracy on its known samples.
    missing
        Files that were left out.
    sizes
        Number of samples of each file.
    """

    benchmark: Benchmark
    results: Results
    missing: tuple[str, ...]
    sizes: Mapping[str, int]

    def columns(self) -> tuple[Column, ...]:
        """Return the columns that have a data set; * marks a mean that lacks one."""
        found = []
        lacks_shifted = bool({*self.missing} & {*self.benchmark.files("shifted")})
        for one in self.benchmark.columns():
            left = tuple(p for p in one.of if p.removeprefix("fs-") in self.sizes)
            is_partial = left != one.of or (one.name[:3] == "fs-" and lacks_shifted)
            if left:
                found.append(Column(one.name + "*" * is_partial, left))
        return tuple(found)

    def values(self, metric: str) -> dict[str, dict[str, float]]:
        """Return the value of each column by detector: means over its data sets."""
        found: dict[str, dict[str, float]] = {}
        for row in self.results.where(metric=metric):
            problem = row.protocol.removeprefix(f"{self.benchmark.name}/")
            found.setdefault(row.detector, {})[problem] = row.value
        return {
            detector: {
                column.name: float(np.mean([values[one] for one in column.of]))
                for column in self.columns()
            }
            for detector, values in found.items()
        }

    def rows(self, metric: str) -> Iterator[Row]:
        """Yield the rows of one metric, then the published ones."""
        for detector, values in self.values(metric).items():
            yield Row(detector, tuple(f"{100 * one:.2f}" for one in values.values()))
        heads = [column.name.removesuffix("*") for column in self.columns()]
        for row in self.benchmark.published:
            if given := row.values.get(metric):
                cells = (f"{given[one]:.2f}" if one in given else "" for one in heads)
                yield Row(f"{row.detector}, published", tuple(cells))

    def title(self) -> str:
        """Return the name, the number of known samples and the accuracy on them."""
        rows = self.results.where(metric="accuracy").column("value")
        found = dict.fromkeys(f"{100 * value:.2f}" for value in sorted(rows))
        return (
            f"{self.benchmark.title}: {self.sizes['known']} known test samples, "
            f"closed-set accuracy {' to '.join([*found][:: max(len(found) - 1, 1)])} %"
        )

    def notes(self) -> Iterator[str]:
        """Yield notes for the reader of the table."""
        one = self.benchmark
        yield f"In percent. {one.conventions.strip()}"
        if self.missing:
            listed = ", ".join(self.missing)
            yield f"Means marked * cannot be compared with others: no {listed}."
        pairs = ((name, n, one.sizes.get(name, n)) for name, n in self.sizes.items())
        if others := [
            f"{name} {n:,} instead of {m:,}" for name, n, m in pairs if n != m
        ]:
            listed = ", ".join(others)
            yield f"Not the samples of the benchmark, by their number: {listed}."
        models = "; ".join(dict.fromkeys(row.model for row in one.published))
        yield (
            f"Published rows, for comparison: {models}. They are from another network, "
            f"and perhaps from other images. Source: {one.published_source}."
            if models
            else f"Published rows: {one.published_source}"
        )

    def to_markdown(self) -> str:
        """Return one table per metric, and the notes."""
        heads = [column.name for column in self.columns()]
        parts = [self.title()]
        for metric in self.benchmark.metrics:
            if metric.key in self.benchmark.shown:
                lines = [[metric.short, *heads], ["---", *("---:" for _ in heads)]]
                lines += [[row.name, *row.cells] for row in self.rows(metric.key)]
                parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return "\n\n".join([*parts, *self.notes()]) + "\n"

    def save_markdown(self, path: str | Path) -> Path:
        """Write the table with its notes to a ``.md`` file."""
        _io.put(Path(path), self.to_markdown())
        return Path(path)


def evaluate(
    benchmark: Benchmark,
    outputs: str | Path,
    recipes: Mapping[str, Detector] | None = None,
    *,
    partial: bool = False,
) -> Table:
    """Fit detectors on the training outputs, and score them on every data set.

    Parameters
    ----------
    benchmark
        A definition, from :func:`load`.
    outputs
        Folder of outputs: ``known.npz`` (test samples of the known classes, labelled),
        ``GROUP/DATA.npz`` for each data set, and ``train.npz`` for detectors that must
        be fitted. Instead of a ``.npz`` file, a folder of ``.npy`` files, as
        :meth:`Outputs.save` writes it.
    recipes
        Detectors by name; by default those of :func:`selection.suitable`.
    partial
        Leave out data sets that have no file, instead of raising an error.
    """
    folder = _Folder(benchmark, Path(outputs))
    missing = tuple(one for one in benchmark.files() if folder.path(one) is None)
    unknown = [one for one in benchmark.files("unknown") if one not in missing]
    if missing and not (partial and unknown and "known" not in missing):
        got = "one without " + ", ".join(f"{name}.npz" for name in missing)
        rule = f"a folder with the files of {benchmark.name}"
        remedy = "Data sets may be left out: --partial, in Python partial=True"
        place, error = str(outputs), FileNotFoundError
        _check.fail(_CALLER, place, rule, got, remedy, error=error)
    train = folder.read("train") if folder.path("train") else None
    if recipes is None:
        chosen = selection.suitable(train).names
        recipes = {name: detectors.make(name) for name in chosen}
    learning = [name for name, one in recipes.items() if one.learns]
    if train is None and learning:
        rule = f"a folder with train.npz for {', '.join(learning)}"
        remedy = "Or choose detectors that need no fitting: msp, maxlogit, energy, gen"
        _check.fail(_CALLER, "outputs", rule, str(outputs), remedy)
    fitted = {name: one.fit(train) for name, one in recipes.items()}
    known = {"": folder.scores("known", fitted)}
    shifted = [one for one in benchmark.files("shifted") if one not in missing]
    if shifted:
        parts = [known[""], *(folder.scores(one, fitted) for one in shifted)]
        known["fs-"] = {
            name: Scores.concat([part[name] for part in parts]) for name in fitted
        }
    accuracy = metrics.get("accuracy")
    rows = [folder.row("", name, accuracy, one) for name, one in known[""].items()]
    for file in unknown:  # read once and not kept: data sets may be large
        found = folder.scores(file, fitted)
        for start, of_known in known.items():
            for name, one in of_known.items():
                both = Scores.concat([one, found[name]])
                problem = f"/{start}{file}"
                rows += [folder.row(problem, name, m, both) for m in benchmark.metrics]
    return Table(
        benchmark=benchmark,
        results=Results(rows),
        missing=missing,
        sizes=folder.sizes,
    )


class _Folder:
    """The files of outputs, and how many samples those that were read have."""

    def __init__(self, benchmark: Benchmark, folder: Path) -> None:
        self.benchmark, self.folder = benchmark, folder
        self.sizes: dict[str, int] = {}
        self._seen: dict[tuple[int, str], str] = {}

    def path(self, name: str) -> Path | None:
        for path in (self.folder / f"{name}.npz", self.folder / name / "meta.json"):
            if path.is_file():
                return path if path.suffix == ".npz" else path.parent
        return None

    def read(self, name: str) -> Outputs:
        """Read a file; raise if another one, by another name, has the same samples."""
        made = Outputs.load(str(self.path(name)))
        first: Any = made.features if made.logits is None else made.logits
        rows = np.ascontiguousarray(_xp.to_numpy(first[:_COMPARED]))
        key = len(made), hashlib.sha256(rows.tobytes()).hexdigest()
        if (other := self._seen.setdefault(key, name)) != name:
            got = f"the same in {other} and {name}"
            _check.fail(_CALLER, "files", "outputs of different samples", got)
        if name != "train":
            self.sizes[name] = len(made)
        return made

    def scores(self, name: str, fitted: Mapping[str, Fitted]) -> dict[str, Scores]:
        """Score a file by every detector."""
        made, n_classes = self.read(name), self.benchmark.n_classes
        if name in self.benchmark.files("unknown"):
            made = made.as_unknown()  # some come with labels of their own classes
        elif made.labels is None or (made.labels < 0).any():
            rule = "labelled samples of known classes only"
            _check.fail(_CALLER, f"{name}.npz", rule, "others")
        elif made.n_classes not in {None, n_classes}:
            rule = f"of {n_classes} classes ({self.benchmark.known})"
            _check.fail(_CALLER, f"{name}.npz", rule, f"{made.n_classes} classes")
        with _io.naming(self.folder / name):
            found = detectors.score_all(fitted, made).items()
        # Groups of one file and no groups of another could not be joined.
        return {detector: replace(one, groups=None) for detector, one in found}

    def row(self, problem: str, name: str, metric: Metric, scores: Scores) -> Result:
        return Result(
            protocol=f"{self.benchmark.name}{problem}",
            model=self.folder.resolve().name,
            detector=name,
            metric=metric.key,
            value=metric.value(scores),
            n=len(scores),
        )
