"""`read_results`: the metrics of files of scores, as a table of results."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from openset import _check, metrics, score_files
from openset.results import Result, Results
from openset.score_files import ScoreFile
from openset.scores import Scores, comparable_labels, need_same_ids

METRICS = ("openauc", "auroc", "accuracy", "fpr_at_tpr")
"""Metrics that `read_results` computes by default."""


def read_results(
    pattern: str | Path | Sequence[str | Path],
    metric: str | Sequence[str] = METRICS,
    *,
    columns: Mapping[str, str] | None = None,
    unknown_label: str | int | None = None,
    higher_is_unknown: bool = False,
) -> Results:
    """Compute metrics of files of scores, found by a pattern with named fields.

    ``{seed}``, ``{run}``, ``{fold}`` and ``{split}`` number repeats of a method,
    ``{protocol}`` names the problem; all other fields name the method. Pass the result
    to :func:`leaderboard` or :func:`compare_runs`.

    Parameters
    ----------
    pattern
        Such as ``"runs/{method}_seed{seed}.csv"``; or several.
    metric
        Metrics that need no threshold.
    columns, unknown_label, higher_is_unknown
        How to read the files: see :meth:`openset.Scores.load`.

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
    wanted = [metric] if isinstance(metric, str) else list(metric)
    rows = [
        metrics.get(one, caller="read_results", argument="metric") for one in wanted
    ]
    for row in rows:
        if row.kind not in {"closed", "ranking", "oracle"}:
            options = [
                m.key for m in metrics.table() if m.kind in {"closed", "ranking"}
            ]
            _check.one_of("read_results", "metric", row.key, options)
    samples: dict[tuple[str, int, int], tuple[ScoreFile, Scores]] = {}
    found = []
    for one in score_files.find(pattern):
        scores = Scores.load(
            one.path,
            columns=columns,
            unknown_label=unknown_label,
            higher_is_unknown=higher_is_unknown,
        )
        run = (one.protocol, one.repeat, one.seed)
        _check_same(*samples.setdefault(run, (one, scores)), one, scores)
        evaluation = metrics.evaluate(scores, metrics=rows)
        found += [
            Result(
                protocol=one.protocol,
                repeat=one.repeat,
                detector=one.method,
                seed=one.seed,
                metric=row.key,
                value=evaluation[row.key],
                n=len(scores),
            )
            for row in rows
        ]
    return Results(found)


def _check_same(
    first: ScoreFile, scores: Scores, other: ScoreFile, others: Scores
) -> None:
    """Raise if methods were tested on different samples in one repeat.

    Their order may differ, as files of different networks are not compared row by row.
    """
    names = str(first.path), str(other.path)
    need_same_ids(others, scores, caller="read_results", names=names)
    one, two = comparable_labels(scores, others)
    if np.array_equal(np.sort(one), np.sort(two)):
        return
    msg = _check.must(
        f"of the same samples as {first.path}",
        caller="read_results",
        name=str(other.path),
        got=f"{others.n_known} known and {others.n_unknown} unknown ones instead of "
        f"{scores.n_known} and {scores.n_unknown}, or other classes",
    )
    raise ValueError(msg)
