"""Labels as scikit-learn takes them, with one for samples of no known class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from openset import _check, _class_names
from openset._types import UNKNOWN
from openset.integrations.sklearn_outputs import CALLER


def checked_labels(X: Any, y: Any) -> NDArray[Any]:
    """Return labels as an array of numbers or strings, one per sample."""
    if y is None:
        # The wording that scikit-learn's checks expect.
        msg = f"{CALLER} requires y to be passed, but the target y is None"
        raise ValueError(msg)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    _check_one_kind(labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def find_unknown(label: Any, labels: NDArray[Any]) -> tuple[Any, NDArray[np.bool_]]:
    """Return the unknown label in the type of the classes, and its samples.

    If the labels are only -1 and one other, and no unknown label was named, both are
    classes: then there is none.
    """
    unknown = _in_kind(label, labels)
    is_unknown = labels == unknown
    if is_unknown.all():
        msg = _check.must(
            "labels of known classes, apart from examples of unknowns",
            caller=f"{CALLER}.fit",
            name="y",
            got=f"{labels.size} labels that are all unknown ({unknown!r})",
            remedy="Add samples of known classes, or choose another "
            "unknown_label if this is a class",
        )
        raise ValueError(msg)
    is_default = label is None and unknown == UNKNOWN
    if is_default and is_unknown.any() and np.unique(labels).size == 2:
        return None, np.zeros(labels.size, dtype=bool)
    return unknown, is_unknown


def _check_one_kind(labels: NDArray[Any]) -> None:
    """Raise if labels mix strings and numbers, or strings and missing labels."""
    if labels.dtype.kind != "O":
        return
    kinds = {"str" if isinstance(one, str) else type(one).__name__ for one in labels}
    if "str" in kinds and len(kinds) > 1:
        msg = _check.must(
            "all strings or all numbers",
            caller=f"{CALLER}.fit",
            name="y",
            got=" and ".join(sorted(kinds)),
            remedy="If classes are strings, use a string for unknown samples too, "
            "and remove samples without a label",
        )
        raise TypeError(msg)


def _in_kind(unknown: Any, labels: NDArray[Any]) -> Any:
    """Return the unknown label for labels of this type; raise if it does not fit."""
    is_text = _class_names.is_text(labels)
    if unknown is None:
        unknown = _class_names.UNKNOWN_NAME if is_text else UNKNOWN
    if np.ndim(unknown):
        msg = _check.must(
            "a label: a number or a string",
            caller=CALLER,
            name="unknown_label",
            got=repr(unknown),
            remedy="predict returns it for samples of no known class",
        )
        raise ValueError(msg)
    if labels.dtype.kind == "b":
        msg = _check.must(
            "numbers or strings",
            caller=f"{CALLER}.fit",
            name="y",
            got="dtype bool, with no third value for unknown",
            remedy="Use y.astype(int)",
        )
        raise ValueError(msg)
    if isinstance(unknown, str) != is_text:
        msg = _check.must(
            "a string where classes are strings"
            if is_text
            else f"a number where classes are {labels.dtype}",
            caller=CALLER,
            name="unknown_label",
            got=repr(unknown),
            remedy="Leave it out for 'unknown'" if is_text else "Leave it out for -1",
        )
        raise ValueError(msg)
    return unknown
