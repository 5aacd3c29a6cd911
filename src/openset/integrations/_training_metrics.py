"""Open-set metrics during training, from logits of known and unknown samples."""

from typing import Any

from openset import _check, detectors, metrics
from openset._types import UNKNOWN
from openset.detectors import Fitted
from openset.outputs import Outputs
from openset.scores import Scores


def scorer(caller: str, detector: str) -> Fitted:
    """Return a detector that needs nothing but logits, and no fitting.

    Examples
    --------
    >>> scorer("f", "maxlogit").detector
    MaxLogit()
    """
    made = detectors.make(detector)
    if made.learns or made.score_needs != ("logits",):
        msg = _check.must(
            "a detector that uses logits only and needs no fitting",
            caller=caller,
            name="detector",
            got=repr(detector),
            remedy="Use 'msp', 'maxlogit', 'energy' or 'gen'",
        )
        raise ValueError(msg)
    return made.fit()


def open_set_metrics(
    fitted: Fitted, known: Any, labels: Any, unknown: Any
) -> dict[str, float]:
    """Return accuracy, AUROC and OpenAUC.

    Parameters
    ----------
    fitted
        What :func:`scorer` returned.
    known, labels
        Logits of samples of the known classes, and their classes. Samples labelled
        below 0 count as unknown.
    unknown
        Logits of samples of no known class.

    Examples
    --------
    >>> known, labels = [[4.0, 0.0], [0.0, 3.0], [2.0, 0.0]], [0, 1, 1]
    >>> open_set_metrics(scorer("f", "msp"), known, labels, [[1.0, 0.9]])["openauc"]
    0.6666666666666666
    """
    ours = Outputs(logits=known, labels=[max(int(one), UNKNOWN) for one in labels])
    others = Outputs(logits=unknown).as_unknown()
    scores = Scores.concat([fitted.score(ours), fitted.score(others)])
    return {
        "accuracy": metrics.accuracy(scores),
        "auroc": metrics.auroc(scores),
        "openauc": metrics.openauc(scores),
    }
