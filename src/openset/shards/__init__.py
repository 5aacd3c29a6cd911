"""Extract, score and classify outputs in many files, with workers or on a cluster.

A folder of shards holds outputs as ``.npz`` files, folders of ``.npy`` files, or
``.parquet`` files. For every shard one file of results with its name is written, which
appears only when it is complete; existing results are not computed again. Shards and
results may be in an object store, named by its URL (extra ``cloud``).
"""

from openset.shards.jobs import Extract, Predict, Score, read
from openset.shards.running import Done, Job, find, is_folder_of_shards, run

__all__ = [
    "Done",
    "Extract",
    "Job",
    "Predict",
    "Score",
    "find",
    "is_folder_of_shards",
    "read",
    "run",
]
