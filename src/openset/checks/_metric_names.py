"""Metrics by the names people give them."""

import re

from openset import metrics
from openset.metrics import Metric


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
