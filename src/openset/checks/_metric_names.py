"""Common names of metrics, and what metrics depend on."""

import re

from openset.metrics import REGISTRY

_ALIASES = {
    "acc": "accuracy",
    "auc": "auroc",
    "f": "f_score",
    "f1": "f_score",
    "f1_score": "f_score",
    "f_measure": "f_score",
    "fpr95": "fpr_at_tpr",
    "fscore": "f_score",
    "halfpoint": "halfpoint_score",
    "inner": "inner_score",
    "macro_f1": "f_score",
    "micro_f1": "f_score",
    "open_set_accuracy": "osa",
    "oscr": "openauc",  # the area under the OSCR curve
    "outer": "outer_score",
    "overall": "overall_score",
    "roc_auc": "auroc",
}
# Longest first: ccr_at_fpr_0.1 is ccr_at_fpr, not ccr.
_BY_LENGTH = sorted(REGISTRY, key=len, reverse=True)

# A test over all metrics keeps these three sets true: it repeats unknown samples,
# changes predicted classes, rejects known samples, and looks which metrics change.
PREVALENCE = frozenset(
    {"aupr", "f_score", "normalized_accuracy", "oosa", "osa", "youden"}
)
"""Metrics that change when there are more unknown samples of the same kind."""

DETECTION = frozenset(
    {"auroc", "aupr", "error_at_tpr", "fpr_at_tpr", "outer_score", "urr"}
)
"""Metrics of known against unknown alone: the predicted class does not matter."""

JOINT = frozenset(
    {
        "ccr",
        "ccr_at_fpr",
        "f_score",
        "halfpoint_score",
        "normalized_accuracy",
        "oosa",
        "openauc",
        "osa",
        "overall_score",
        "partial_openauc",
        "youden",
    }
)
"""Metrics that fall with both a wrong class and a rejected known sample."""


def base(name: str) -> str | None:
    """Return the name in `openset.metrics` of a reported metric, None if unknown.

    Examples
    --------
    >>> base("ccr_at_fpr_0.1"), base("f_score_micro_best"), base("Macro-F1")
    ('ccr_at_fpr', 'f_score', 'f_score')
    >>> base("our new score") is None
    True
    """
    plain = re.sub(r"[^a-z0-9.]+", "_", name.lower()).strip("_")
    if plain in _ALIASES:
        return _ALIASES[plain]
    for known in _BY_LENGTH:
        if plain == known or plain.startswith(f"{known}_"):
            return known
    return None


def is_oracle(name: str) -> bool:
    """Tell whether a metric is the best value over all thresholds of the test data."""
    return name.lower().endswith("_best")
