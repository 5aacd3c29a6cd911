"""Training the published methods, and extracting a network's outputs.

Needs the extra `torch`.
"""

from openset.train import augment, methods, networks
from openset.train.inference._extract import extract
from openset.train.inference._extract_layers import extract_layers, layer_outputs
from openset.train.inference._input_step import Odin
from openset.train.inference._layered import (
    FittedLayers,
    Gram,
    Layered,
    how_to_extract,
)
from openset.train.inference._trained import Trained
from openset.train.jobs._job import Execution, Job
from openset.train.loop._fit import fit, fit_jobs
from openset.train.methods import names
from openset.train.recipes import Recipe, recipe
from openset.train.tuning import tune

__all__ = [
    "Execution",
    "FittedLayers",
    "Gram",
    "Job",
    "Layered",
    "Odin",
    "Recipe",
    "Trained",
    "augment",
    "extract",
    "extract_layers",
    "fit",
    "fit_jobs",
    "how_to_extract",
    "layer_outputs",
    "methods",
    "names",
    "networks",
    "recipe",
    "tune",
]
