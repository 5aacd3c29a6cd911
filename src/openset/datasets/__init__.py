"""Data sets by name or from your own files, cut into parts by protocols."""

from openset.datasets import image_lists as image_lists
from openset.datasets import lazy_inputs as lazy_inputs
from openset.datasets.cuts import Cut as Cut
from openset.datasets.cuts import Samples as Samples
from openset.datasets.cuts import cut as cut
from openset.datasets.cuts import folds as folds
from openset.datasets.dataset import Dataset as Dataset
from openset.datasets.loading import available as available
from openset.datasets.loading import describe as describe
from openset.datasets.loading import info as info
from openset.datasets.loading import is_name as is_name
from openset.datasets.loading import load as load
from openset.datasets.loading import names as names
from openset.datasets.loading import register as register
from openset.datasets.loading import resized as resized
from openset.datasets.negatives import with_negatives as with_negatives
from openset.datasets.own import from_arrays as from_arrays
from openset.datasets.places import default_root as default_root
