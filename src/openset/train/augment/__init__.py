"""Random augmentation of whole batches of images, on CPU and CUDA alike.

Every image has its own draw, and no loop runs over them. Needs the extra `torch`.
"""

from openset.train.augment import ops
from openset.train.augment._crop import crop_and_flip
from openset.train.augment._normalize import normalize
from openset.train.augment._randaugment import OPERATIONS, rand_augment
from openset.train.augment._resize import resize
from openset.train.augment.pipeline import (
    PLAIN,
    PUBLISHED,
    PUBLISHED_ARPL,
    Pipeline,
    Published,
    pipeline_a,
    pipeline_b,
)

__all__ = [
    "OPERATIONS",
    "PLAIN",
    "PUBLISHED",
    "PUBLISHED_ARPL",
    "Pipeline",
    "Published",
    "crop_and_flip",
    "normalize",
    "ops",
    "pipeline_a",
    "pipeline_b",
    "rand_augment",
    "resize",
]
