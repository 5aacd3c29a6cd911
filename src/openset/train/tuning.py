"""Choosing options of a method by known classes that are held out."""

import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openset import _check, datasets, metrics, protocols
from openset.datasets import Cut, Dataset
from openset.train.jobs._job import job_and_execution, signature
from openset.train.jobs._prepare import prepare_all
from openset.train.loop._devices import precision_of
from openset.train.loop._fit import fit_jobs

_CALLER = "train.tune"
_LEAST = 3


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Options that did best on held-out known classes, and how all of them did.

    Attributes
    ----------
    options
        The chosen values.
    table
        One record per combination: its options, the mean over draws, and every draw's
        value.
    """

    options: dict[str, Any]
    table: list[dict[str, Any]]


def tune(
    *,
    grid: Mapping[str, Sequence[Any]],
    n_out: int | None = None,
    draws: int = 2,
    **settings: Any,
) -> Tuned:
    """Choose options by OpenAUC on known classes that are held out.

    Only the training part of the data is used: some known classes play the unknown
    ones, and a fifth of the samples is the test part. All combinations of options are
    trained at once on one device.

    Parameters
    ----------
    grid
        Values to try: ``{"weight": [0.05, 0.1, 0.2]}``.
    n_out
        Known classes that are held out. Left out: a third of them.
    draws
        Number of problems to draw; the mean over them counts.
    **settings
        As for :func:`openset.train.fit`. A model of your own needs one output for each
        class that stays known.

    Examples
    --------
    >>> digits = datasets.load("digits")
    >>> tuned = tune(
    ...     method="openauc",
    ...     grid={"weight": [0.0, 0.1]},
    ...     data=digits,
    ...     protocol=protocols.holdout(digits, 6, 4, rng=0),
    ...     draws=1,
    ...     recipe="arpl",
    ...     epochs=4,
    ...     lr=0.02,
    ...     progress=False,
    ... )
    >>> [row["options"] for row in tuned.table]
    [{'weight': 0.0}, {'weight': 0.1}]
    """
    lists = grid.values() if isinstance(grid, Mapping) else [None]
    is_list = [isinstance(v, Sequence) and not isinstance(v, str) for v in lists]
    if not lists or not all(is_list) or not all(map(len, lists)):
        rule, remedy = "options with a list of values each", "{'weight': [0.1, 0.2]}"
        msg = _check.must(rule, caller=_CALLER, name="grid", got=grid, remedy=remedy)
        raise ValueError(msg)
    job, execution = job_and_execution(**settings)
    (outer,) = prepare_all([job], precision=precision_of(execution))
    fixed = dict(job.options or {})
    choices = [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]
    problems = inner_problems(outer.cut, n_out=n_out, draws=draws, seed=job.seed)
    # The recipe is that of the real problem: the inner ones have no published name.
    inner = replace(
        job,
        protocol=None,
        split=None,
        recipe=outer.spec.recipe,
        changes={},
        out=None,
        title="",
    )
    jobs = [
        replace(inner, data=one, options=fixed | choice)
        for choice in choices
        for one in problems
    ]
    done = fit_jobs(jobs, execution)
    values = np.array([metrics.openauc(one.scores["published"]) for one in done])
    table = [
        {"options": choice, "openauc": float(row.mean()), "draws": row.tolist()}
        for choice, row in zip(
            choices, values.reshape(len(choices), len(problems)), strict=True
        )
    ]
    best = max(table, key=lambda row: row["openauc"])
    return Tuned(options=fixed | best["options"], table=table)


tune.__signature__ = signature(  # type: ignore[attr-defined]
    *list(inspect.signature(tune).parameters.values())[:-1], returns=Tuned
)


def inner_problems(
    cut: Cut, *, n_out: int | None = None, draws: int = 2, seed: int = 0
) -> list[Cut]:
    """Draw problems from the training part, in which some known classes are unknown.

    The true test part, and with it every true unknown, is not used.

    Examples
    --------
    >>> digits = datasets.load("digits")
    >>> cut = datasets.cut(digits, protocols.holdout(digits, 6, 4, rng=0))
    >>> inner_problems(cut, draws=1)
    [Cut(train=403, test=150)]
    """
    train = cut.train
    n = len(train.classes)
    n_out = max(1, n // 3) if n_out is None else n_out
    if n < _LEAST:
        msg = _check.must(
            f"of {_LEAST} known classes or more: one to hold out, two to classify",
            caller=_CALLER,
            name="data",
            got=f"{n}",
        )
        raise ValueError(msg)
    if not 1 <= n_out <= n - 2:
        msg = _check.must(
            f"between 1 and {n - 2}: two of the {n} known classes must stay known",
            caller=_CALLER,
            name="n_out",
            got=n_out,
        )
        raise ValueError(msg)
    inner = Dataset(
        inputs=train.inputs,
        labels=train.labels,
        classes=train.classes,
        kind=train.kind,
        name=f"{cut.protocol.source or 'data'}:train",
    ).with_parts(test=0.2, rng=seed)
    drawn = protocols.holdout(inner, n - n_out, n_out, draws, rng=seed)
    listed = [drawn] if isinstance(drawn, protocols.Protocol) else list(drawn)
    return [datasets.cut(inner, protocol) for protocol in listed]
