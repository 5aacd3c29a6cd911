"""Score outputs of a network on a named benchmark."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io, _xp, detectors, metrics, selection
from openset.bench.named._definition import Benchmark, Column
from openset.detectors import Detector, Fitted
from openset.outputs import Outputs
from openset.results import Result, Results
from openset.scores import Scores

_CALLER = "named.evaluate"
_COMPARED = 4096  # first samples that tell whether two files have the same ones
Seen = dict[tuple[int, str], Path]


@dataclass(frozen=True)
class Row:
    """A row of the table as it is shown, in percent."""

    name: str
    cells: tuple[str, ...]
    is_published: bool = False


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
    """

    benchmark: Benchmark
    results: Results
    missing: tuple[str, ...] = ()

    def columns(self) -> tuple[Column, ...]:
        """Return the columns that have a data set, without what is missing."""
        there = {_problem(row.protocol) for row in self.results}
        kept = [
            Column(one.name, tuple(p for p in one.of if p in there))
            for one in self.benchmark.columns()
        ]
        return tuple(one for one in kept if one.of)

    def values(self, metric: str) -> dict[str, dict[str, float]]:
        """Return the value of each column by detector: means over its data sets."""
        rows = self.results.where(metric=metric)
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            found.setdefault(row.detector, {})[_problem(row.protocol)] = row.value
        return {
            detector: {
                column.name: float(np.mean([values[one] for one in column.of]))
                for column in self.columns()
            }
            for detector, values in found.items()
        }

    def title(self) -> str:
        """Return the name, the number of known samples and the accuracy on them."""
        rows = list(self.results.where(metric="accuracy"))
        found = sorted({f"{100 * row.value:.2f}" for row in rows})
        accuracy = f"{found[0]} to {found[-1]}" if len(found) > 1 else found[0]
        return (
            f"{self.benchmark.title}: {rows[0].n} known test samples, closed-set "
            f"accuracy {accuracy} %"
        )

    def header(self, column: str) -> str:
        """Return the name of a column; * marks a mean without all its data sets."""
        whole = {one.name: one.of for one in self.benchmark.columns()}[column]
        there = {one.name: one.of for one in self.columns()}[column]
        lacks_shifted = any(one in self.missing for one in self.benchmark.shifted())
        is_partial = whole != there or (column.startswith("fs-") and lacks_shifted)
        return column + "*" * is_partial

    def rows(self, metric: str) -> Iterator[Row]:
        """Yield the rows of one metric, then the published ones."""
        names = [column.name for column in self.columns()]
        for detector, values in self.values(metric).items():
            yield Row(detector, tuple(f"{100 * values[name]:.2f}" for name in names))
        for row in self.benchmark.published:
            if metric in row.values:
                given = row.values[metric]
                cells = [
                    f"{given[name]:.2f}" if name in given else "" for name in names
                ]
                yield Row(f"{row.detector}, published", tuple(cells), is_published=True)

    def notes(self) -> Iterator[str]:
        """Yield notes for the reader of the table."""
        yield f"In percent. {self.benchmark.conventions.strip()}"
        if self.missing:
            listed = ", ".join(self.missing)
            yield f"Means marked * cannot be compared with others: no {listed}."
        others = [
            f"{name} {n:,} instead of {self.benchmark.sizes[name]:,}"
            for name, n in self._sizes().items()
            if n != self.benchmark.sizes.get(name, n)
        ]
        if others:
            listed = ", ".join(others)
            yield f"Not the samples of the benchmark, by their number: {listed}."
        models = dict.fromkeys(row.model for row in self.benchmark.published)
        if models:
            yield (
                f"Published rows, for comparison: {'; '.join(models)}. They are from "
                "another network, and perhaps from other images. Source: "
                f"{self.benchmark.published_source}."
            )
        else:
            yield f"Published rows: {self.benchmark.published_source}"

    def _sizes(self) -> dict[str, int]:
        """Return the number of samples of each file, without shifted images."""
        n_of = {_problem(row.protocol): row.n for row in self.results}
        n_known = n_of[""]  # of the row of the accuracy
        found = {"known": n_known}
        for problem, (group, data, is_full) in self.benchmark.problems().items():
            if not is_full and problem in n_of:
                found[f"{group}/{data}"] = n_of[problem] - n_known
        return found

    def save_markdown(self, path: str | Path) -> Path:
        """Write the table with its notes to a ``.md`` file."""
        path = Path(path)
        _io.put(path, self.to_markdown())
        return path

    def to_markdown(self) -> str:
        """Return one table per metric, and the notes."""
        heads = [self.header(column.name) for column in self.columns()]
        parts = [self.title()]
        for metric in self.benchmark.metrics:
            if metric.key not in self.benchmark.shown:
                continue
            lines = [[metric.short, *heads], ["---", *("---:" for _ in heads)]]
            lines += [[row.name, *row.cells] for row in self.rows(metric.key)]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return "\n\n".join([*parts, *self.notes()]) + "\n"


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
    paths, missing = _paths(benchmark, folder, partial=partial)
    train_path = _find(folder, "train")
    seen: Seen = {}
    train = _loaded(train_path, seen) if train_path else None
    if recipes is not None:
        rule, remedy = "detectors by name", "Such as {'msp': detectors.MSP()}"
        _check.instance(_CALLER, "recipes", recipes, Mapping, rule=rule, remedy=remedy)
    else:
        chosen = selection.suitable(train).names
        recipes = {name: detectors.make(name) for name in chosen}
    learning = [name for name, one in recipes.items() if one.learns]
    if train is None and learning:
        msg = _check.must(
            f"a folder with train.npz for {', '.join(learning)}",
            caller=_CALLER,
            name="outputs",
            got=str(folder),
            remedy="Or choose detectors that need no fitting: msp, maxlogit, energy, "
            "gen",
        )
        raise ValueError(msg)
    with _io.naming(train_path or folder):
        fitted = {name: one.fit(train) for name, one in recipes.items()}
    rows = list(_rows(benchmark, paths, fitted, seen, model=folder.resolve().name))
    return Table(benchmark=benchmark, results=Results(rows), missing=missing)


def _rows(
    benchmark: Benchmark,
    paths: Mapping[str, Path],
    fitted: Mapping[str, Fitted],
    seen: Seen,
    *,
    model: str,
) -> Iterator[Result]:
    known = {"": _known(benchmark, paths["known"], fitted, seen)}
    shifted = [name for name in benchmark.shifted() if name in paths]
    if shifted:
        more = (_known(benchmark, paths[name], fitted, seen) for name in shifted)
        parts = [known[""], *more]
        known["fs"] = {
            name: Scores.concat([part[name] for part in parts]) for name in fitted
        }

    def row(
        protocol: str, detector: str, metric: metrics.Metric, scores: Scores
    ) -> Result:
        return Result(
            protocol=protocol,
            model=model,
            detector=detector,
            metric=metric.key,
            value=metric.value(scores),
            n=len(scores),
        )

    for name, scores in known[""].items():
        yield row(benchmark.name, name, metrics.get("accuracy"), scores)
    of_file: dict[str, list[tuple[str, str]]] = {}
    for problem, (group, data, is_full) in benchmark.problems().items():
        part = "fs" if is_full else ""
        of_file.setdefault(f"{group}/{data}", []).append((problem, part))
    # A file is read once, and is not kept: data sets may be large.
    for file in (one for one in of_file if one in paths):
        unknown = _unknown(paths[file], fitted, seen)
        for problem, part in of_file[file]:
            for name, of_known in known.get(part, {}).items():
                scores = Scores.concat([of_known, unknown[name]])
                for metric in benchmark.metrics:
                    yield row(f"{benchmark.name}/{problem}", name, metric, scores)


def _paths(
    benchmark: Benchmark, folder: Path, *, partial: bool
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Find the files; raise an error that names all that are missing."""
    if not folder.is_dir():
        msg = _check.must("a folder", caller=_CALLER, name="outputs", got=str(folder))
        raise FileNotFoundError(msg)
    wanted = benchmark.files()
    found = {name: path for name in wanted if (path := _find(folder, name))}
    missing = tuple(name for name in wanted if name not in found)
    unknown = {f"{group}/{data}" for group, data, _ in benchmark.problems().values()}
    enough = "known" in found and unknown & set(found)
    if missing and not (partial and enough):
        listed = ", ".join(f"{name}.npz" for name in missing)
        msg = _check.must(
            "a folder with known.npz and at least one unknown data set"
            if partial
            else f"a folder with {len(wanted)} files of {benchmark.name}",
            caller=_CALLER,
            name="outputs",
            got=f"{folder} without {listed}",
            remedy=""
            if partial
            else "Extract these outputs, or leave them out (--partial; in Python "
            "partial=True)",
        )
        raise FileNotFoundError(msg)
    return found, missing


def _find(folder: Path, name: str) -> Path | None:
    file = folder / f"{name}.npz"
    if file.is_file():
        return file
    return folder / name if (folder / name / "meta.json").is_file() else None


def _loaded(path: Path, seen: Seen) -> Outputs:
    """Read a file; raise if another one, by another name, has the same samples."""
    outputs = Outputs.load(path)
    first: Any = outputs.logits
    if first is None:
        first = outputs.features
    rows = np.ascontiguousarray(_xp.to_numpy(first[:_COMPARED]))
    key = len(outputs), hashlib.sha256(rows.tobytes()).hexdigest()
    if seen.setdefault(key, path) != path:
        rule, got = "outputs of different samples", "the same ones"
        name = f"{seen[key]} and {path}"
        raise ValueError(_check.must(rule, caller=_CALLER, name=name, got=got))
    return outputs


def _known(
    benchmark: Benchmark, path: Path, fitted: Mapping[str, Fitted], seen: Seen
) -> dict[str, Scores]:
    """Score samples of the known classes."""
    outputs = _loaded(path, seen)
    if outputs.n_classes not in {None, benchmark.n_classes}:
        msg = _check.must(
            f"outputs of {benchmark.n_classes} classes ({benchmark.known})",
            caller=_CALLER,
            name=str(path),
            got=f"{outputs.n_classes} classes",
        )
        raise ValueError(msg)
    if outputs.labels is None or (outputs.labels < 0).any():
        msg = _check.must(
            "labelled samples of known classes only",
            caller=_CALLER,
            name=str(path),
            got="no labels" if outputs.labels is None else "the label -1",
        )
        raise ValueError(msg)
    return _scores(outputs, path, fitted)


def _unknown(path: Path, fitted: Mapping[str, Fitted], seen: Seen) -> dict[str, Scores]:
    # Some data sets come with labels of their own classes: all are unknown here.
    return _scores(_loaded(path, seen).as_unknown(), path, fitted)


def _scores(
    outputs: Outputs, path: Path, fitted: Mapping[str, Fitted]
) -> dict[str, Scores]:
    with _io.naming(path):
        found = detectors.score_all(fitted, outputs)
    # Groups of one file and no groups of another could not be joined.
    return {
        name: Scores(labels=one.labels, predicted=one.predicted, known=one.known)
        for name, one in found.items()
    }


def _problem(protocol: str) -> str:
    """Return what follows the name of the benchmark: ``near/cifar100``."""
    return protocol.partition("/")[2]
