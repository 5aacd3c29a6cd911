"""Every operation against Pillow's own, on noise and on photographs."""

import numpy as np
import pytest
import torch

from openset.train.augment import ops, resize

pytest.importorskip("PIL", reason="the foreign oracle of the operations")

from PIL import Image, ImageDraw, ImageEnhance, ImageOps

AFFINE = Image.Transform.AFFINE


def solarize_add(image, addition):
    sums = np.asarray(image).astype(np.int64) + addition
    return ImageOps.solarize(Image.fromarray(sums.clip(0, 255).astype(np.uint8)), 128)


def moved(image, *matrix):
    return image.transform(image.size, AFFINE, matrix)


PILLOW = {
    "rotate": lambda i, v: i.rotate(v),
    "posterize": lambda i, v: ImageOps.posterize(i, max(int(v), 1)),
    "solarize": ImageOps.solarize,
    "solarize_add": solarize_add,
    "color": lambda i, v: ImageEnhance.Color(i).enhance(v),
    "contrast": lambda i, v: ImageEnhance.Contrast(i).enhance(v),
    "brightness": lambda i, v: ImageEnhance.Brightness(i).enhance(v),
    "sharpness": lambda i, v: ImageEnhance.Sharpness(i).enhance(v),
    "shear_x": lambda i, v: moved(i, 1, v, 0, 0, 1, 0),
    "shear_y": lambda i, v: moved(i, 1, 0, 0, v, 1, 0),
    "translate_x": lambda i, v: moved(i, 1, 0, v, 0, 1, 0),
    "translate_y": lambda i, v: moved(i, 1, 0, 0, 0, 1, v),
    "autocontrast": lambda i, _v: ImageOps.autocontrast(i),
    "equalize": lambda i, _v: ImageOps.equalize(i),
    "invert": lambda i, _v: ImageOps.invert(i),
}
SIZES = [(32, 32), (28, 28), (13, 40), (40, 13), (3, 3), (2, 5), (1, 1), (64, 64)]


def noise(rng, h, w, n=12):
    """Give noise of many kinds: full, dull, of few greys, constant, a ramp."""
    images = rng.integers(0, 256, (n, 3, h, w))
    images[n // 3 : n // 2] = images[n // 3 : n // 2] * 0.3 + 40
    images[n // 2 : -2] = images[n // 2 : -2] // 64 * 50
    images[-2] = 7
    images[-1] = np.arange(w) * 255 // max(w - 1, 1)
    return torch.from_numpy(images.astype(np.uint8))


def by_pillow(images, function, *values):
    """Do it one by one, slow and sure; values are one for all, or one per sample."""
    done = []
    for number, image in enumerate(images):
        picture = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
        own = (v if np.isscalar(v) else v[number] for v in values)
        done.append(torch.from_numpy(np.array(function(picture, *own))))
    return torch.stack(done).permute(0, 3, 1, 2)


def values_of(name, magnitudes=range(31)):
    """Give the values of an operation at these magnitudes, and their negatives."""
    _, low, high, is_signed = ops.TABLE[name]
    values = low + np.asarray(magnitudes) / 30 * (high - low)
    return np.concatenate([values, -values]) if is_signed else values


def cut_out(image, side, x, y):
    w, h = image.size
    x0, y0 = int(max(0, x - side / 2)), int(max(0, y - side / 2))
    image = image.copy()
    box = (x0, y0, min(w, x0 + side), min(h, y0 + side))
    ImageDraw.Draw(image).rectangle(box, (125, 123, 114))
    return image


def test_every_operation_has_its_oracle():
    assert {*PILLOW, "cutout_abs"} == set(ops.TABLE)


@pytest.mark.parametrize("name", PILLOW)
@pytest.mark.parametrize("size", SIZES)
def test_operations_equal_pillow_bit_by_bit(rng, name, size):
    images = noise(rng, *size)
    for value in values_of(name):
        expected = by_pillow(images, PILLOW[name], value)
        assert torch.equal(getattr(ops, name)(images, value), expected), value


@pytest.mark.parametrize("size", SIZES)
def test_cutout_equals_pillows_rectangle(rng, size):
    h, w = size
    images = noise(rng, h, w)
    for side in (*np.arange(20) * 2.0, *rng.uniform(0, 40, 20)):
        x, y = rng.uniform(0, w, 12), rng.uniform(0, h, 12)
        result = ops.cutout_abs(images, side, torch.tensor(x), torch.tensor(y))
        assert torch.equal(result, by_pillow(images, cut_out, side, x, y))


def test_operations_leave_their_input_alone_in_any_memory_layout(rng):
    images = noise(rng, 8, 6)
    other = images.contiguous(memory_format=torch.channels_last)
    before = images.clone()
    centres = torch.full((len(images),), 4.0)
    for name in ops.TABLE:
        values = {"cutout_abs": (3, centres, centres)}.get(name, (2,))
        results = [getattr(ops, name)(one, *values) for one in (images, other)]
        assert torch.equal(*results), name
        assert torch.equal(images, before), name


@pytest.mark.parametrize("side", [8, 20, 32, 64])
@pytest.mark.parametrize("size", [(28, 28), (32, 32), (64, 64), (75, 75), (20, 33)])
def test_resize_equals_pillow_bit_by_bit(rng, size, side):
    images = noise(rng, *size)
    bilinear = Image.Resampling.BILINEAR
    expected = by_pillow(images, lambda i: i.resize((side, side), bilinear))
    assert torch.equal(resize(images, side), expected)
