"""The sixteen operations of RandAugment, on batches of uint8 images (n, 3, h, w).

Each equals Pillow's own result, pixel by pixel, on every device; parameters are a
number for all samples, or a tensor with one per sample.
"""

from openset.train.augment._enhance import brightness, color, contrast, sharpness
from openset.train.augment._geometry import (
    cutout_abs,
    rotate,
    shear_x,
    shear_y,
    translate_x,
    translate_y,
)
from openset.train.augment._tones import (
    autocontrast,
    equalize,
    invert,
    posterize,
    solarize,
    solarize_add,
)

__all__ = [
    "autocontrast",
    "brightness",
    "color",
    "contrast",
    "cutout_abs",
    "equalize",
    "invert",
    "posterize",
    "rotate",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "solarize_add",
    "translate_x",
    "translate_y",
]
