"""Metrics by the names people give them."""

import re

from openset import metrics
from openset.metrics import Metric

# Which errors change a metric: of classification, of detection (known against unknown).
_CLASSIFICATION = "accuracy inner_score halfpoint_score_best aurc_known augrc_known"
_DETECTION = (
    "auroc urr fpr_at_tpr fpr_at_tpr_unknown aupr aupr_unknown outer_score "
    "error_at_tpr error_at_tpr_unknown_pooled youden_binary"
)
_BOTH = (
    "ccr_at_fpr openauc openauc_strict openauc_optimistic partial_openauc oosa osa "
    "osa_best ccr "
    "ccr_at_fpr_0.1 ccr_at_fpr_0.01 ccr_at_fpr_0.001 f_score f_score_best "
    "f_score_micro f_score_micro_best f_score_macro_f halfpoint_score "
    "halfpoint_k_plus_1 overall_score overall_score_best youden youden_best "
    "normalized_accuracy normalized_accuracy_best normalized_accuracy_recall aurc "
    "augrc scod_risk oaa"
)
_ERRORS = {
    key: kind
    for kind, keys in (
        ("classification", _CLASSIFICATION),
        ("detection", _DETECTION),
        ("both", _BOTH),
    )
    for key in keys.split()
}

_MOVING = (
    "aupr aupr_unknown error_at_tpr_unknown_pooled f_score f_score_best f_score_micro "
    "f_score_micro_best f_score_macro_f youden youden_best normalized_accuracy "
    "normalized_accuracy_best normalized_accuracy_recall aurc augrc scod_risk oaa"
)
MOVES_WITH_PREVALENCE = frozenset(_MOVING.split())
"""Metrics that change with the share of unknown samples in the data."""


def counts_errors_of(row: Metric) -> str | None:
    """Which errors change a metric: of ``"classification"``, ``"detection"``, both."""
    return _ERRORS.get(row.key, _ERRORS.get(row.name))


def row_of(name: str) -> Metric | None:
    """Return the row of the table of metrics for a reported name, or None.

    Examples
    --------
    >>> row_of("ccr_at_fpr_0.05").name, row_of("f_score_micro_best").key
    ('ccr_at_fpr', 'f_score_micro_best')
    >>> row_of("Macro-F1").key, row_of("our new score")
    ('f_score', None)
    """
    plain = re.sub(r"[^a-z0-9.]+", "_", name.lower()).strip("_")
    rows = metrics.table()
    for row in rows:
        if plain == row.key or plain in row.aliases:
            return row
    # Its function's name, or that with a number: a parameter other than in our rows.
    by_name = re.sub(r"_[0-9.]+$", "", plain)
    return next((row for row in rows if row.name == by_name), None)


def is_oracle(name: str) -> bool:
    """Whether a metric is the best value over all thresholds of the test data."""
    row = row_of(name)
    return row.kind == "oracle" if row is not None else name.lower().endswith("_best")
