"""Training the published methods, and taking a network's outputs.

Needs the extra `torch`.
"""

from openset.train import augment, methods, networks
from openset.train._devices import make_fabric
from openset.train._fit import fit, fit_jobs
from openset.train._job import Job, check_folder, job, load_data
from openset.train._tune import Tuned, inner_problems, tune
from openset.train.extract import extract
from openset.train.methods import names
from openset.train.recipes import Recipe, recipe
from openset.train.trained import Trained

__all__ = [
    "Job",
    "Recipe",
    "Trained",
    "Tuned",
    "augment",
    "check_folder",
    "extract",
    "fit",
    "fit_jobs",
    "inner_problems",
    "job",
    "load_data",
    "make_fabric",
    "methods",
    "names",
    "networks",
    "recipe",
    "tune",
]
