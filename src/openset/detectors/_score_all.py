"""`score_all`: the scores of several fitted detectors in one pass over the outputs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, batches
from openset.detectors._finite import need_numbers
from openset.detectors._fitted import Fitted, need_fitted
from openset.outputs import Outputs, need_outputs
from openset.scores import Scores


def score_all(
    fitted: Iterable[Fitted] | Mapping[str, Fitted],
    outputs: Outputs,
    *,
    batch_size: int | None = None,
    progress: bool = False,
    rows: NDArray[np.int64] | None = None,
) -> dict[str, Scores]:
    """Score several fitted detectors in one pass over logits and features.

    Reductions (largest logit, argmax, log-sum-exp, norms) are shared, and the data are
    read in batches: beyond the result, memory does not grow with the number of samples.

    Parameters
    ----------
    fitted
        Fitted detectors; a mapping names the results, a list uses detector names.
    outputs
        Labelled outputs of the split to score.
    batch_size
        Samples per batch; by default as many as fit a few megabytes.
    progress
        Show a progress bar.
    rows
        Numbers of the samples to score; by default all. The scores are those of
        ``outputs.take(rows)``, but nothing is copied.
    """
    if not isinstance(fitted, Mapping):
        listed = need_fitted("score_all", fitted)
        fitted = {one.detector.name: one for one in listed}
        if len(fitted) != len(listed):
            msg = (
                "score_all: detectors must have different names, got two of one kind. "
                "Pass a mapping from your own names to them"
            )
            raise ValueError(msg)
    else:
        need_fitted("score_all", fitted.values())
    need_outputs("score_all", "outputs", outputs)
    if outputs.labels is None:
        msg = (
            "score: outputs must have labels, got none. Use fitted.known(outputs) for "
            "the knownness of unlabelled data"
        )
        raise ValueError(msg)
    for one in fitted.values():
        one.check_outputs(outputs)
    states = {name: one._ready(outputs) for name, one in fitted.items()}
    # Columns stay on the device until the last batch: a transfer per batch can cost
    # more than the scores.
    known: dict[str, list[Array]] = {name: [] for name in fitted}
    predicted: dict[str, list[Array]] = {name: [] for name in fitted}
    top_classes: list[Array] = []
    for _, batch in batches(outputs, batch_size, progress=progress, chosen=rows):
        if outputs.logits is not None:
            top_classes.append(batch.top_class)
        for name, one in fitted.items():
            known[name].append(one._scored(states[name], batch))
            if outputs.logits is None:
                predicted[name].append(_own_classes(one, states[name], batch))
    shared = _column(top_classes, np.int64) if top_classes else None
    columns = {}
    for name, one in fitted.items():
        columns[name] = _column(known.pop(name), np.float64)
        need_numbers(one.detector, columns[name], rows)
    own = {"labels": outputs.labels, "groups": outputs.groups, "ids": outputs.ids}
    if rows is not None:
        own = {n: None if one is None else one[rows] for n, one in own.items()}
    return {
        name: Scores(
            **own,  # type: ignore[arg-type]  # labels are there
            predicted=_column(predicted[name], np.int64) if shared is None else shared,
            known=columns[name],
            n_classes=outputs.n_classes,
        )
        for name in fitted
    }


def _column(parts: list[Array], dtype: type) -> NDArray[Any]:
    """Concatenate the parts of all batches, then convert them to NumPy at once."""
    whole = parts[0] if len(parts) == 1 else _xp.array_namespace(*parts).concat(parts)
    column: NDArray[Any] = _xp.to_numpy(whole).astype(dtype, copy=False)
    # A new array: read-only, so that `Scores` does not copy it.
    return _check.frozen(column) if column.base is None else column


def _own_classes(one: Fitted, state: State, batch: Batch) -> Array:
    classes = one.detector.predict_batch(state, batch)
    if classes is None:
        msg = (
            f"{type(one.detector).__name__}.score: outputs must have logits, got "
            f"features only. The predicted class is the argmax of the logits"
        )
        raise ValueError(msg)
    return classes
