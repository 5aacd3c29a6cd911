"""Training the published methods, and extracting a network's outputs.

Needs the extra `torch`.
"""

from openset.extract.loader import extract
from openset.extract.odin import Odin
from openset.train import augment, methods, networks
from openset.train.inference._trained import Trained
from openset.train.jobs._job import Execution, Job
from openset.train.loop._fit import fit, fit_jobs
from openset.train.methods import names
from openset.train.recipes import Recipe, recipe
from openset.train.tuning import tune

__all__ = [
    "Execution",
    "Job",
    "Odin",
    "Recipe",
    "Trained",
    "augment",
    "extract",
    "fit",
    "fit_jobs",
    "methods",
    "names",
    "networks",
    "recipe",
    "tune",
]
