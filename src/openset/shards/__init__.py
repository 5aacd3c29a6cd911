"""Score and classify outputs in many files, with workers or on a cluster.

A folder of shards holds outputs as ``.npz`` files, folders of ``.npy`` files, or
``.parquet`` files. For every shard one file of results with its name is written, which
appears only when it is complete; existing results are not computed again. Shards and
results may be in an object store, named by its URL (extra ``cloud``).
"""

from openset._urls import is_url
from openset.shards._predict import Predict
from openset.shards._run import INVALID as INVALID
from openset.shards._run import Done, Job, run
from openset.shards._score import Score
from openset.shards._shards import (
    Shard,
    find,
    is_folder_of_shards,
    listed,
    need_names_once,
    read,
)

__all__ = [
    "Done",
    "Job",
    "Predict",
    "Score",
    "Shard",
    "find",
    "is_folder_of_shards",
    "is_url",
    "listed",
    "need_names_once",
    "read",
    "run",
]
