"""Choose options and recipes on held-out known classes."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openset import _check, datasets, metrics, protocols
from openset.datasets import Cut, Dataset
from openset.train import recipes
from openset.train.fit import fit_jobs, job_and_execution, precision_of
from openset.train.job import Job
from openset.train.methods import find
from openset.train.plan import plans
from openset.train.recipes import Recipe

_CALLER = "train.tune"


@dataclass(frozen=True)
class Tuned:
    """The best combination on held-out known classes, and the results of all.

    Attributes
    ----------
    options
        Options of the method: those that were given, and the chosen values.
    recipe
        The recipe, given or chosen.
    changes
        Changes of the recipe: those that were given, and the chosen values.
    table
        One record per combination: its values, the mean over draws, and every draw's
        value.
    """

    options: dict[str, Any]
    recipe: str | Recipe
    changes: dict[str, Any]
    table: list[dict[str, Any]]

    def apply(self, job: Job) -> Job:
        """Return a job with what was chosen."""
        return replace(
            job, options=self.options, recipe=self.recipe, changes=self.changes
        )


def tune(
    *,
    grid: Mapping[str, Sequence[Any]],
    n_out: int | None = None,
    draws: int = 2,
    **settings: Any,
) -> Tuned:
    """Choose options and recipes by OpenAUC on held-out known classes.

    Only the training part of the data is used: some known classes are treated as
    unknown, and a fifth of the samples is used for testing. All combinations are
    trained at once on one device.

    Parameters
    ----------
    grid
        Values to try, of options of the method (``{"weight": [0.05, 0.1, 0.2]}``), of
        fields of the recipe (``{"weight_decay": [1e-4, 5e-4]}``,
        ``{"auxiliary": ["none", "rotation"]}``) or of the recipe itself
        (``{"recipe": ["ceplus", "openset"]}``). Give ``budget`` instead of ``epochs``
        where their costs differ.
    n_out
        Known classes that are held out. Default: a third of them.
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
    job, execution = job_and_execution(**settings)
    choices = [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]
    chosen = [_with(job, choice) for choice in choices]
    planned = plans(chosen, precision_of(execution))
    problems = inner_problems(planned[0].cut, n_out=n_out, draws=draws, seed=job.seed)
    # An inner problem has no published name, and its images may happen to be of one
    # size where those of the real problem are not: it takes the recipe of that one.
    own: Any = dict.fromkeys(("negatives", "protocol", "split", "out"))
    jobs = [
        replace(one, data=cut, recipe=plan.spec.recipe, changes={}, title="", **own)
        for one, plan in zip(chosen, planned, strict=True)
        for cut in problems
    ]
    done = fit_jobs(jobs, execution)
    found = [metrics.openauc(one.scores["published"]) for one in done]
    values = np.reshape(found, (len(choices), len(problems)))
    table = [
        {"options": choice, "openauc": float(row.mean()), "draws": row.tolist()}
        for choice, row in zip(choices, values, strict=True)
    ]
    best = max(range(len(table)), key=lambda row: table[row]["openauc"])
    won = chosen[best]
    return Tuned(dict(won.options or {}), won.recipe, dict(won.changes), table)


def _with(job: Job, choice: Mapping[str, Any]) -> Job:
    """Return the job with some of its options, and of its recipe, changed."""
    kind = find(job.method, caller=_CALLER)
    names = ["recipe", *kind.options(), *recipes.changeable()]
    for name in choice:
        _check.one_of(_CALLER, "a name in grid", name, list(dict.fromkeys(names)))
    # Some belong to both, as the side of images does.
    changes = {k: v for k, v in choice.items() if k in recipes.changeable()}
    options = {k: v for k, v in choice.items() if k in kind.options()}
    return replace(
        job,
        options=dict(job.options or {}) | options,
        recipe=choice.get("recipe", job.recipe),
        changes=dict(job.changes) | changes,
    )


def inner_problems(
    cut: Cut, *, n_out: int | None = None, draws: int = 2, seed: int = 0
) -> list[Cut]:
    """Draw problems from the training part, in which some known classes are unknown.

    The true test part, and with it every true unknown, is not used. Negatives stay as
    they are.

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
    if not 1 <= n_out <= n - 2:
        rule = f"between 1 and {n - 2}: two of the {n} known classes must stay known"
        _check.fail(_CALLER, "n_out", rule, n_out)
    inner = Dataset(
        inputs=train.inputs,
        labels=train.labels,
        classes=train.classes,
        kind=train.kind,
        name=f"{cut.protocol.source or 'data'}:train",
    ).with_parts(test=0.2, rng=seed)
    drawn = protocols.holdout(inner, n - n_out, n_out, draws, rng=seed)
    cuts = [datasets.cut(inner, protocol) for protocol in drawn]
    if cut.negative is None:
        return cuts
    # Negatives belong to no known class, held out or not.
    own = [replace(cut.negative, classes=one.train.classes) for one in cuts]
    return [replace(one, negative=part) for one, part in zip(cuts, own, strict=True)]
