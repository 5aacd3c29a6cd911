"""The data set of negatives of a job."""

from pathlib import Path

from openset import _check, datasets
from openset.datasets import Dataset
from openset.train.jobs._job import Job


def load_negatives(job: Job, loaded: Dataset, *, caller: str) -> Dataset:
    """Return the data set of negatives; `loaded`, if it is that of the known classes.

    Two data sets with the same label set have the same classes; the samples of these
    classes are then those of the training data.
    """
    given = job.negatives
    if given is job.data:
        return loaded
    found = given if isinstance(given, Dataset) else datasets.load(str(given), job.root)
    if not found.label_set or found.label_set != loaded.label_set:
        return found
    if not isinstance(given, Dataset):  # by its name
        if isinstance(job.data, str | Path):
            _check.need_same_file(Path(str(given)), Path(job.data), caller=caller)
        return loaded
    msg = _check.must(
        "the training data themselves, or a data set with another label_set",
        caller=caller,
        name="negatives",
        got=f"another Dataset with label_set={found.label_set!r}",
        remedy="If it has other classes, say so with dataclasses.replace(dataset, "
        "label_set='negatives')",
    )
    raise ValueError(msg)
