"""Random augmentation of whole batches of images, with equal results on CPU and CUDA.

Every image is augmented differently, without a loop over images. Needs the extra
`torch`.
"""

from openset.train.augment import ops
from openset.train.augment._crop import crop_and_flip
from openset.train.augment._normalize import Normalize
from openset.train.augment._randaugment import OPERATIONS, rand_augment
from openset.train.augment._resize import resize
from openset.train.augment.pipeline import (
    ARPLPLUS,
    CEPLUS,
    PLAIN,
    Pipeline,
    PublishedConstants,
    pipeline_arpl,
    pipeline_ceplus,
)

__all__ = [
    "ARPLPLUS",
    "CEPLUS",
    "OPERATIONS",
    "PLAIN",
    "Normalize",
    "Pipeline",
    "PublishedConstants",
    "crop_and_flip",
    "ops",
    "pipeline_arpl",
    "pipeline_ceplus",
    "rand_augment",
    "resize",
]
