"""Negatives: classes of a data set that a protocol uses for nothing else."""

from dataclasses import replace

import numpy as np

from openset import _check
from openset.datasets._dataset import Dataset
from openset.protocols import Protocol
from openset.protocols.classes import Class


def with_negatives(
    protocol: Protocol,
    dataset: Dataset,
    negatives: Dataset,
    *,
    caller: str = "with_negatives",
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
    caller
        Name of the calling function, for errors.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> digits = datasets.load("digits")
    >>> protocol = protocols.Protocol(known=range(5), unknown=[8, 9], source="digits")
    >>> with_negatives(protocol, digits, digits).negative
    ('5', '6', '7')
    """
    if protocol.negative:
        reason = "the protocol has negative classes"
        msg = f"{caller}: negatives must be left out: {reason}"
        raise ValueError(msg)
    is_own = negatives is dataset
    source = protocol.source if is_own else negatives.label_set or "negatives"
    own = dataset.label_set
    used = {
        negatives.number(one, caller=caller)
        for part in ("known", "unknown", "surrogate")
        if (protocol.source_of(part) or own) == (source or own)
        for one in getattr(protocol, part)
    }
    rows = negatives.parts.get("train", np.arange(len(negatives)))
    free = set(np.unique(negatives.labels[rows]).tolist()) - used
    listed: tuple[Class, ...] = negatives.classes
    if negatives.unlisted:
        listed = (*listed, negatives.unlisted)
    if is_own and protocol.classes:
        listed = protocol.classes  # as the protocol writes them
    negative = tuple(c for c in listed if negatives.number(c, caller=caller) in free)
    if not negative:
        msg = _check.must(
            "a data set with classes that the protocol does not use",
            caller=caller,
            name="negatives",
            got=f"{negatives.name or 'a data set'} with none left",
        )
        raise ValueError(msg)
    return replace(protocol, negative=negative, negative_source=source)
