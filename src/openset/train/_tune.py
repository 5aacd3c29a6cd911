"""Choosing options of a method honestly: by known classes that are held out."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _check, datasets, metrics, protocols
from openset.datasets import Cut, Dataset
from openset.train._fit import fit_jobs
from openset.train._job import Job, job
from openset.train.recipes import Recipe
from openset.train.recipes import recipe as named_recipe

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


def inner_problems(
    cut: Cut, *, n_out: int | None = None, draws: int = 2, seed: int = 0
) -> list[Cut]:
    """Make problems out of the training part: some known classes play the unknown.

    A fifth of the training samples is their test part. The true test part, and with it
    every true unknown, is never looked at.

    Parameters
    ----------
    cut
        The problem to choose options for.
    n_out
        Known classes that are held out; left out, a third of them.
    draws
        Problems to make.
    seed
        Draws the classes and the samples.

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
            f"of {_LEAST} known classes or more: one to leave out, two to tell apart",
            caller=_CALLER,
            name="cut",
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


def tune(
    *,
    method: str,
    grid: Mapping[str, Sequence[Any]],
    cut: Cut,
    n_out: int | None = None,
    draws: int = 2,
    seed: int = 0,
    recipe: str | Recipe = "B",
    network: Any = None,
    options: Mapping[str, Any] | None = None,
    precision: str = "32-true",
    accumulate: int = 1,
    fabric: Any = None,
    progress: bool = True,
    **changes: Any,
) -> Tuned:
    """Choose options by OpenAUC on known classes that are held out.

    Parameters
    ----------
    method
        See :func:`openset.train.fit`.
    grid
        Values to try: ``{"weight": [0.05, 0.1, 0.2]}``. All combinations are trained,
        at once on one device.
    cut
        The problem; only its training part is used.
    n_out, draws, seed
        See :func:`inner_problems`.
    recipe, network, options, precision, accumulate, **changes
        See :func:`openset.train.fit`. A model of your own has an output for each class
        that stays known.
    fabric, progress
        See :func:`openset.train.fit_jobs`.

    Examples
    --------
    >>> digits = datasets.load("digits")
    >>> tuned = tune(
    ...     method="openauc",
    ...     grid={"weight": [0.0, 0.1]},
    ...     cut=datasets.cut(digits, protocols.holdout(digits, 6, 4, rng=0)),
    ...     draws=1,
    ...     recipe="A",
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
    _check.instance(
        _CALLER,
        "cut",
        cut,
        Cut,
        rule="a Cut",
        remedy="datasets.cut(data, protocol) makes one",
    )
    fixed = dict(options or {})
    if isinstance(recipe, str):
        recipe, changes = named_recipe(recipe, cut.protocol.source, **changes), {}
    choices = [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]
    problems = inner_problems(cut, n_out=n_out, draws=draws, seed=seed)
    jobs: list[Job] = [
        job(
            method=method,
            data=one,
            options=fixed | choice,
            seed=seed,
            recipe=recipe,
            network=network,
            precision=precision,
            accumulate=accumulate,
            **changes,
        )
        for choice in choices
        for one in problems
    ]
    done = fit_jobs(jobs, fabric, progress=progress)
    values = np.array([metrics.openauc(one.scores["own"]) for one in done])
    table = [
        {"options": choice, "openauc": float(row.mean()), "draws": row.tolist()}
        for choice, row in zip(
            choices, values.reshape(len(choices), len(problems)), strict=True
        )
    ]
    best = max(table, key=lambda row: row["openauc"])
    return Tuned(options=fixed | best["options"], table=table)
