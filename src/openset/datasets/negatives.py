"""Negatives: classes that a protocol uses for nothing else, and no copies of others."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.datasets.dataset import Dataset
from openset.protocols import Protocol

_COPIES = 0.01  # short texts, and a few images on the web, are the same by chance


def with_negatives(
    protocol: Protocol, dataset: Dataset, negatives: Dataset
) -> Protocol:
    """Return the protocol with negative classes from a data set.

    They are all classes of the data set except those that are known, tested as unknown,
    or used to choose a threshold: negatives never occur in a test.

    Parameters
    ----------
    protocol
        A protocol without negative classes.
    dataset
        Where the known classes come from.
    negatives
        Where the negatives come from: another data set, which :func:`cut` then takes
        as ``negative=``, or `dataset` itself.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> digits = datasets.load("digits")
    >>> protocol = protocols.Protocol(known=range(5), unknown=[8, 9], source="digits")
    >>> with_negatives(protocol, digits, digits).negative
    ('5', '6', '7')
    """
    caller = "with_negatives"
    if protocol.negative:
        _check.fail(caller, "protocol", "without negative classes", repr(protocol))
    is_own = negatives is dataset
    source = protocol.source if is_own else negatives.label_set or "negatives"
    own = dataset.label_set
    used = {
        negatives.number(one)
        for part in ("known", "unknown", "surrogate")
        if (protocol.source_of(part) or own) == (source or own)
        for one in getattr(protocol, part)
    }
    rows = negatives.parts.get("train", np.arange(len(negatives)))
    free = set(np.unique(negatives.labels[rows]).tolist()) - used
    unlisted = (negatives.unlisted,) if negatives.unlisted else ()
    # Classes of the protocol's own data set as the protocol writes them.
    listed = (is_own and protocol.classes) or (*negatives.classes, *unlisted)
    negative = tuple(c for c in listed if negatives.number(c) in free)
    if not negative:
        rule = "a data set with classes that the protocol does not use"
        _check.fail(caller, "negatives", rule, f"{negatives.name} with none left")
    return replace(protocol, negative=negative, negative_source=source)


def need_no_copies(
    part: str,
    inputs: Any,
    rows: NDArray[np.int64],
    *,
    tested: Any,
    tested_rows: NDArray[np.int64],
) -> None:
    """Raise if more than one in a hundred tested unknown samples are in another part.

    Arrays and texts are compared. A copy with other pixels, such as a resized one, is
    not found.
    """
    is_array = isinstance(inputs, np.ndarray) and isinstance(tested, np.ndarray)
    # Within one data set, classes tell them apart.
    if inputs is tested or not is_array or inputs.shape[1:] != tested.shape[1:]:
        return
    if inputs.dtype != tested.dtype and {inputs.dtype.kind, tested.dtype.kind} != {"U"}:
        return
    there = {hash(_key(inputs[row])) for row in rows}
    copies = sum(hash(_key(tested[row])) in there for row in tested_rows)
    if copies > _COPIES * tested_rows.size:
        rule = "other samples than the unknown ones of the test"
        got = f"copies of {copies} of {tested_rows.size} of them"
        _check.fail("cut", part, rule, got, "Leave these samples out")


def _key(one: Any) -> str | bytes:
    return str(one) if isinstance(one, str) else one.tobytes()
