"""A data set of negatives becomes a part of the protocol of a run."""

from dataclasses import replace

import numpy as np

from openset import _check, datasets
from openset.datasets import Dataset
from openset.protocols import Protocol
from openset.protocols.classes import Class
from openset.train.jobs._job import Job

_CALLER = "train.fit"


def with_negatives(
    job: Job, protocol: Protocol, loaded: Dataset
) -> tuple[Protocol, Dataset | None]:
    """Return the protocol with negative classes, and their data set if it is another.

    They are all classes of the data set but those that are known, tested as unknown, or
    used to choose a threshold: negatives never occur in a test.
    """
    if protocol.negative:
        reason = "the protocol has negative classes"
        msg = f"{_CALLER}: negatives must be left out: {reason}"
        raise ValueError(msg)
    found = _load(job, loaded)
    is_own = found is loaded
    source = protocol.source if is_own else found.label_set or "negatives"
    own = loaded.label_set
    used = {
        found.number(one, caller=_CALLER)
        for part in ("known", "unknown", "surrogate")
        if (protocol.source_of(part) or own) == (source or own)
        for one in getattr(protocol, part)
    }
    rows = found.parts.get("train", np.arange(len(found)))
    free = set(np.unique(found.labels[rows]).tolist()) - used
    listed: tuple[Class, ...] = found.classes
    if found.unlisted:
        listed = (*listed, found.unlisted)
    if is_own and protocol.classes:
        listed = protocol.classes  # as the protocol writes them
    negative = tuple(c for c in listed if found.number(c, caller=_CALLER) in free)
    if not negative:
        msg = _check.must(
            "a data set with classes that the protocol does not use",
            caller=_CALLER,
            name="negatives",
            got=f"{found.name or 'a data set'} with none left",
        )
        raise ValueError(msg)
    changed = replace(protocol, negative=negative, negative_source=source)
    return changed, None if is_own else found


def _load(job: Job, loaded: Dataset) -> Dataset:
    """Return the data set of negatives; `loaded`, if it is that of the known classes.

    Two data sets with one label set have the same classes. Which samples a class of it
    has must then be clear: those of the training data.
    """
    given = job.negatives
    if given is job.data:
        return loaded
    found = given if isinstance(given, Dataset) else datasets.load(str(given), job.root)
    if not found.label_set or found.label_set != loaded.label_set:
        return found
    if found is not given:  # by its name
        return loaded
    msg = _check.must(
        "the training data themselves, or a data set with another label_set",
        caller=_CALLER,
        name="negatives",
        got=f"another Dataset with label_set={found.label_set!r}",
        remedy="If it has other classes, say so with dataclasses.replace(dataset, "
        "label_set='negatives')",
    )
    raise ValueError(msg)
