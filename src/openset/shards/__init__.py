"""Extract, score and classify outputs in many files, with workers or on a cluster.

A folder of shards holds outputs as ``.npz`` files, folders of ``.npy`` files, or
``.parquet`` files. For every shard one file of results with its name is written, which
appears only when it is complete; existing results are not computed again. Shards and
results may be in an object store, named by its URL (extra ``cloud``).
"""

from openset.shards.jobs import Extract as Extract
from openset.shards.jobs import Predict as Predict
from openset.shards.jobs import Score as Score
from openset.shards.jobs import read as read
from openset.shards.running import Done as Done
from openset.shards.running import Job as Job
from openset.shards.running import find as find
from openset.shards.running import is_folder_of_shards as is_folder_of_shards
from openset.shards.running import run as run
