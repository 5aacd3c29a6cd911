"""Training the published methods; the files and what they hold.

===========  ======================================================================
fit.py       `fit`, `fit_jobs`: the entrance
job.py       `Job`, `Execution`: what is trained, and where
plan.py      from a job to data, recipe and network; the spec of a run
recipes.py   the published recipes; published.toml their constants
run.py       the loop: epochs, updates, CUDA graphs, log, checkpoint
batches.py   samples on the device, shuffled and augmented; seeds
learner.py   network, method and rotation task as one module
trained.py   a finished run
model.py     its network as a module; outputs and scores
tune.py      options and recipes chosen on held-out known classes
methods/     the losses
networks/    the architectures
augment/     RandAugment, crops, resizing
===========  ======================================================================

Needs the extra `torch`.
"""

from openset._optional import needs

with needs("torch"):
    import safetensors as safetensors
    import torch as torch

from openset.extract.loader import extract
from openset.extract.odin import Odin
from openset.train import augment, methods, networks
from openset.train.fit import fit, fit_jobs
from openset.train.job import Execution, Job
from openset.train.methods import names
from openset.train.recipes import Recipe, recipe
from openset.train.trained import Trained
from openset.train.tune import tune

__all__ = ["Execution", "Job", "Odin", "Recipe", "Trained", "augment", "extract", "fit"]
__all__ += ["fit_jobs", "methods", "names", "networks", "recipe", "tune"]
