"""Named benchmarks: scores of your network's outputs, beside published ones.

Outputs of a network are files in one folder, those that :meth:`Benchmark.files` lists.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io, detectors, metrics, selection
from openset.bench.definitions import Benchmark, Column, load, names
from openset.detectors import Detector
from openset.outputs import Outputs
from openset.results import Result, Results
from openset.scores import Scores

__all__ = ["Table", "evaluate", "load", "names", "saved_in"]

_CALLER = "named.evaluate"


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Scores of detectors on a benchmark.

    Parameters
    ----------
    results
        One row per detector, data set and metric, all metrics of the benchmark; and the
        closed-set accuracy on its known samples.
    sizes
        Number of samples of each file that was there.
    """

    benchmark: Benchmark
    results: Results
    sizes: Mapping[str, int]

    def columns(self) -> list[Column]:
        """Return the columns of which every data set was there."""
        start = f"{self.benchmark.name}/"
        there = {row.protocol.removeprefix(start) for row in self.results}
        return [one for one in self.benchmark.columns() if {*one.of} <= there]

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

    def rows(self, metric: str) -> Iterator[list[str]]:
        """Yield name and numbers of each row, in percent; then the published ones."""
        for detector, values in self.values(metric).items():
            yield [detector, *(f"{100 * one:.2f}" for one in values.values())]
        for row in self.benchmark.published:
            if given := row.values.get(metric):
                numbers = (given.get(column.name) for column in self.columns())
                cells = ("" if one is None else f"{one:.2f}" for one in numbers)
                yield [f"{row.detector}, published", *cells]

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
        if missing := [name for name in one.files() if name not in self.sizes]:
            yield f"Without {', '.join(missing)}, and means over them."
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
        for metric in self.benchmark.metrics(shown=True):
            lines = [[metric.short, *heads], ["---", *("---:" for _ in heads)]]
            lines += self.rows(metric.key)
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return "\n\n".join([*parts, *self.notes()]) + "\n"


def saved_in(folder: Path) -> dict[str, Path]:
    """Return outputs saved in a folder: ``train`` is ``train.npz``, or a folder.

    Those of unknowns are one folder below: ``near/tin``.
    """
    return {
        path.relative_to(folder).as_posix().removesuffix(".npz"): path
        for path in (*folder.glob("*"), *folder.glob("*/*"))
        if path.suffix == ".npz" or (path / "meta.json").is_file()
    }


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
    folder = Path(outputs)
    files = saved_in(folder)
    missing = [f"{name}.npz" for name in benchmark.files() if name not in files]
    unknown = [name for name in benchmark.files("unknown") if name in files]
    if missing and not (partial and unknown and "known" in files):
        rule = f"a folder with the files of {benchmark.name}"
        remedy = "Data sets may be left out: --partial, in Python partial=True"
        got, error = f"one without {', '.join(missing)}", FileNotFoundError
        _check.fail(_CALLER, str(outputs), rule, got, remedy, error=error)
    train = None
    if "train" in files or any(one.learns for one in (recipes or {}).values()):
        train = Outputs.load(files.get("train", folder / "train.npz"))
    if recipes is None:
        chosen = selection.suitable(train).names
        recipes = {name: detectors.make(name) for name in chosen}
    fitted = {name: one.fit(train) for name, one in recipes.items()}
    sizes: dict[str, int] = {}

    def scores(name: str) -> dict[str, Scores]:
        """Score a file by every detector."""
        made = Outputs.load(files[name])
        if name in unknown:
            made = made.as_unknown()  # some come with labels of their own classes
        elif made.labels is None or (made.labels < 0).any():
            rule = "labelled samples of known classes only"
            _check.fail(_CALLER, f"{name}.npz", rule, "others")
        elif made.n_classes not in {None, benchmark.n_classes}:
            rule = f"of {benchmark.n_classes} classes ({benchmark.known})"
            _check.fail(_CALLER, f"{name}.npz", rule, f"{made.n_classes} classes")
        sizes[name] = len(made)
        with _io.naming(folder / name):
            found = detectors.score_all(fitted, made).items()
        # Groups of one file and no groups of another could not be joined.
        return {detector: replace(one, groups=None) for detector, one in found}

    def row(problem: str, detector: str, metric: metrics.Metric, one: Scores) -> Result:
        about: dict[str, Any] = {"metric": metric.key, "n": len(one)}
        about |= {"protocol": f"{benchmark.name}{problem}", "detector": detector}
        model = folder.resolve().name
        return Result(**about, model=model, value=metric.value(one))

    known = {"": scores("known")}
    shifted = benchmark.files("shifted")
    if shifted and {*shifted} <= {*files}:
        parts = [known[""], *map(scores, shifted)]
        known["fs-"] = {
            name: Scores.concat([part[name] for part in parts]) for name in fitted
        }
    accuracy, every = metrics.get("accuracy"), benchmark.metrics()
    rows = [row("", name, accuracy, one) for name, one in known[""].items()]
    for file in unknown:  # read once and not kept: data sets may be large
        found = scores(file)
        for start, of_known in known.items():
            for name, one in of_known.items():
                both = Scores.concat([one, found[name]])
                rows += [row(f"/{start}{file}", name, m, both) for m in every]
    return Table(benchmark=benchmark, results=Results(rows), sizes=sizes)
