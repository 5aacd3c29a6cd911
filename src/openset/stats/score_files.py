"""Files of scores: named one by one, or by a pattern, ``runs/{method}_seed{seed}.csv``.

A field in braces stands for a part of a file's path. ``{seed}`` is a number, ``{run}``,
``{fold}`` and ``{split}`` are other repeats of a method, ``{protocol}`` names the
problem, and all other fields together name the method.
"""

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from openset import _check, metrics
from openset.results import Result, Results
from openset.scores import Scores, comparable_labels, in_order_of

METRICS = ("openauc", "auroc", "accuracy", "fpr_at_tpr")
"""Metrics that `read_results` computes by default."""

REPEATS = ("seed", "run", "fold", "split")
"""Fields that distinguish repeats of a method."""

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_refuse = partial(_check.fail, "stats", "SCORES")


class ScoreFile(NamedTuple):
    """A file of scores: its method, its protocol, and which repeat it is.

    `seed` is the number of ``{seed}``; `repeat` numbers what the other fields for
    repeats say. `has_repeats` tells whether the pattern has any.
    """

    path: Path
    method: str
    protocol: str = ""
    repeat: int = 0
    seed: int = 0
    has_repeats: bool = False


def is_pattern(path: str | Path) -> bool:
    """Whether a path has a field in braces, and no such file exists.

    Examples
    --------
    >>> is_pattern("runs/{method}_seed{seed}.csv"), is_pattern("runs/msp.csv")
    (True, False)
    """
    return _FIELD.search(str(path)) is not None and not Path(path).exists()


def find(patterns: str | Path | Sequence[str | Path]) -> list[ScoreFile]:
    """Find the files of one or several patterns, in the order of methods and repeats.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("msp_seed0", "msp_seed1", "knn_seed0", "knn_seed1"):
    ...         _ = Path(folder, f"{name}.csv").write_text("")
    ...     found = find(f"{folder}/{{method}}_seed{{seed}}.csv")
    >>> [(one.method, one.seed) for one in found]
    [('knn', 0), ('knn', 1), ('msp', 0), ('msp', 1)]
    """
    given = [patterns] if isinstance(patterns, str | Path) else patterns
    matches = [one for pattern in given for one in _matches(str(pattern))]
    repeats = sorted({_repeat(fields) for _, _, fields in matches})
    found: dict[tuple[str, str, int, int], ScoreFile] = {}
    for path, method, fields in matches:
        protocol, seed = fields.get("protocol", ""), int(fields.get("seed", 0))
        place = protocol, method, repeats.index(_repeat(fields)), seed
        has_repeats = not fields.keys().isdisjoint(REPEATS)
        one = ScoreFile(path, method, protocol, *place[2:], has_repeats)
        first = found.setdefault(place, one)
        if first is not one:
            _refuse("one file per method and repeat", f"{first.path} and {path}")
    return [found[place] for place in sorted(found)]


def find_or_name(paths: Sequence[str | Path]) -> list[ScoreFile]:
    """Return the files of patterns (see :func:`find`), or files given one by one.

    Those are detectors on one test set, in the order given. A detector is named after
    its file, or after its folders if file names are not unique.

    Examples
    --------
    >>> [one.method for one in find_or_name(["a/scores-msp.npz", "a/scores-knn.npz"])]
    ['msp', 'knn']
    >>> [one.method for one in find_or_name(["a/openauc/own.npz", "a/ceplus/own.npz"])]
    ['openauc', 'ceplus']
    """
    if any(map(is_pattern, paths)):
        return find(paths)
    files = [Path(path) for path in paths]
    names = _names(files)
    if min(len(set(names)), len({file.resolve() for file in files})) < len(files):
        remedy = "Detectors are named after their files and folders, without the ending"
        _refuse("two or more different files", ", ".join(map(str, files)), remedy)
    return [ScoreFile(*one) for one in zip(files, names, strict=True)]


def read_results(
    pattern: str | Path | Sequence[str | Path],
    metric: str | Sequence[str] = METRICS,
    **reading: Any,
) -> Results:
    """Compute metrics of files of scores, found by a pattern with named fields.

    The result is for :func:`leaderboard` or :func:`paired_t`. ``{seed}`` is a number,
    ``{run}``, ``{fold}`` and ``{split}`` are other repeats of a method, ``{protocol}``
    is the problem; all other fields name the method.

    Parameters
    ----------
    pattern
        Such as ``"runs/{method}_seed{seed}.csv"``; or several.
    metric
        Metrics that need no threshold.
    **reading
        How to read the files, as :meth:`openset.Scores.load` takes it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for seed in (0, 1):
    ...         scores = Scores(labels=[0, -1], predicted=[0, 0], known=[seed, 0.5])
    ...         _ = scores.save(f"{folder}/msp_seed{seed}.csv")
    ...     found = read_results(f"{folder}/{{method}}_seed{{seed}}.csv", "auroc")
    >>> found.column("value").tolist()
    [0.0, 1.0]
    """
    caller = "read_results"
    wanted = [metric] if isinstance(metric, str) else list(metric)
    rows = [metrics.get(one, caller=caller, argument="metric") for one in wanted]
    for row in rows:
        if row.kind == "threshold":
            _check.fail(caller, "metric", "one that needs no threshold", row.key)
    firsts: dict[tuple[str, int, int], tuple[Path, Scores]] = {}
    found = []
    for path, method, protocol, repeat, seed, _ in find(pattern):
        scores = Scores.load(path, **reading)
        first = firsts.setdefault((protocol, repeat, seed), (path, scores))
        _check_same(*first, path, scores)
        of_run = partial(Result, protocol=protocol, repeat=repeat, seed=seed)
        values = metrics.evaluate(scores, metrics=rows)
        found += [
            of_run(detector=method, metric=key, value=values[key], n=len(scores))
            for key in (row.key for row in rows)
        ]
    return Results(found)


def _check_same(path: Path, scores: Scores, other: Path, others: Scores) -> None:
    """Raise if methods were tested on different samples in one repeat.

    Their order may differ, as files of different networks are not compared row by row.
    """
    names = str(path), str(other)
    if scores.ids is not None and others.ids is not None:
        in_order_of(others, scores, caller="read_results", names=names)
    one, two = comparable_labels(scores, others)
    if not np.array_equal(np.sort(one), np.sort(two)):
        got = f"{others.n_known} known and {others.n_unknown} unknown ones"
        rule = f"of the same samples as {path}"
        _check.fail("read_results", str(other), rule, f"{got}, or of other classes")


def _names(files: Sequence[Path]) -> list[str]:
    parts = [(*file.parts[:-1], file.stem.removeprefix("scores-")) for file in files]
    if len({one[-1] for one in parts}) == len(parts):
        return [one[-1] for one in parts]
    for end in (-1, 0):  # drop what all have in common
        while all(len(one) > 1 for one in parts) and len({o[end] for o in parts}) == 1:
            parts = [one[1:] if end == 0 else one[:-1] for one in parts]
    return ["/".join(one) for one in parts]


def _matches(pattern: str) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """Yield path, method and fields of each file of a pattern."""
    text = Path(pattern).expanduser().as_posix()
    pieces = _FIELD.split(text)  # literal, field, literal, field, ..., literal
    search = "*".join(map(glob.escape, pieces[::2]))
    paths = [Path(path) for path in sorted(glob.glob(search))]  # noqa: PTH207  # escaped text, absolute or not
    regex = re.compile(_regex(pieces))
    found = [(path, regex.fullmatch(path.as_posix())) for path in paths]
    kept = [(path, match.groupdict()) for path, match in found if match]
    if not kept:
        remedy = "Quote it, with fields in braces: 'runs/{method}_seed{seed}.csv'"
        rule = "a pattern that matches files"
        _refuse(rule, pattern, remedy, FileNotFoundError)
    own = {*pieces[1::2]} - {*REPEATS, "protocol"}
    # A pattern without a field for the method names it: "msp_seed{seed}" is msp.
    stem = Path(text).stem
    plain = re.sub(r"[-_.]?(\w*?)[-_=]?\{\1\}", "", stem) or stem
    for path, fields in kept:
        names = [text for name, text in fields.items() if name in own]
        yield path, " · ".join(names) or plain, fields


def _regex(pieces: Sequence[str]) -> str:
    """Return the regular expression of a pattern, split into literals and fields.

    A name of a method may contain the text around it (``a_seed_b_seed0``), so that of
    other fields is as short as possible.
    """
    own = {"seed": r"\d+"} | dict.fromkeys(REPEATS[1:], "[^/]+?")
    parts = [re.escape(piece) for piece in pieces]
    for i, field in enumerate(pieces[1::2]):
        is_first = pieces.index(field) == 2 * i + 1
        text = f"(?P<{field}>{own.get(field, '[^/]+')})"
        parts[2 * i + 1] = text if is_first else f"(?P={field})"
    return "".join(parts)


def _repeat(fields: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(fields[name] for name in REPEATS[1:] if name in fields)
