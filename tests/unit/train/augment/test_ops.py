"""Every operation against Pillow's own, on noise and on photographs."""

import numpy as np
import pytest
import torch

from openset.train.augment import OPERATIONS, ops, resize

pytest.importorskip("PIL", reason="the foreign oracle of the operations")

from PIL import Image, ImageDraw, ImageEnhance, ImageOps

AFFINE = Image.Transform.AFFINE


def solarize_add(image, addition):
    sums = np.asarray(image).astype(np.int64) + addition
    return ImageOps.solarize(Image.fromarray(sums.clip(0, 255).astype(np.uint8)), 128)


def moved(image, *matrix):
    return image.transform(image.size, AFFINE, matrix)


# Name: (what Pillow does with a value, the value at magnitude 0 and at 30, signed).
WITH_VALUE = {
    "rotate": (lambda i, v: i.rotate(v), 0, 30, True),
    "posterize": (lambda i, v: ImageOps.posterize(i, max(int(v), 1)), 0, 4, False),
    "solarize": (ImageOps.solarize, 0, 256, False),
    "solarize_add": (solarize_add, 0, 110, False),
    "color": (lambda i, v: ImageEnhance.Color(i).enhance(v), 0.1, 1.9, False),
    "contrast": (lambda i, v: ImageEnhance.Contrast(i).enhance(v), 0.1, 1.9, False),
    "brightness": (lambda i, v: ImageEnhance.Brightness(i).enhance(v), 0.1, 1.9, False),
    "sharpness": (lambda i, v: ImageEnhance.Sharpness(i).enhance(v), 0.1, 1.9, False),
    "shear_x": (lambda i, v: moved(i, 1, v, 0, 0, 1, 0), 0, 0.3, True),
    "shear_y": (lambda i, v: moved(i, 1, 0, 0, v, 1, 0), 0, 0.3, True),
    "translate_x": (lambda i, v: moved(i, 1, 0, v, 0, 1, 0), 0, 100, True),
    "translate_y": (lambda i, v: moved(i, 1, 0, 0, 0, 1, v), 0, 100, True),
}
WITHOUT_VALUE = {
    "autocontrast": ImageOps.autocontrast,
    "equalize": ImageOps.equalize,
    "invert": ImageOps.invert,
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
    """Do it one by one, slow and sure."""
    done = []
    for number, image in enumerate(images):
        picture = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
        result = function(picture, *(value[number] for value in values))
        done.append(torch.from_numpy(np.array(result)).permute(2, 0, 1))
    return torch.stack(done)


def cut_out(image, side, x, y):
    w, h = image.size
    x0, y0 = int(max(0, x - side / 2)), int(max(0, y - side / 2))
    image = image.copy()
    box = (x0, y0, min(w, x0 + side), min(h, y0 + side))
    ImageDraw.Draw(image).rectangle(box, (125, 123, 114))
    return image


def magnitudes(low, high, *, is_signed):
    """Give the value of every whole magnitude, and its negative."""
    values = (np.arange(31) / 30) * (high - low) + low
    return np.concatenate([values, -values]) if is_signed else values


def test_every_operation_has_its_oracle():
    assert {*WITH_VALUE, *WITHOUT_VALUE, "cutout_abs"} == set(OPERATIONS)
    assert set(ops.__all__) == set(OPERATIONS)


@pytest.mark.parametrize("name", WITHOUT_VALUE)
@pytest.mark.parametrize("size", SIZES)
def test_operations_without_a_value_equal_pillow_bit_by_bit(rng, name, size):
    images = noise(rng, *size)
    assert torch.equal(
        getattr(ops, name)(images), by_pillow(images, WITHOUT_VALUE[name])
    )


@pytest.mark.parametrize("name", WITH_VALUE)
@pytest.mark.parametrize("size", SIZES)
def test_operations_with_a_value_per_sample_equal_pillow_bit_by_bit(rng, name, size):
    function, low, high, is_signed = WITH_VALUE[name]
    values = magnitudes(low, high, is_signed=is_signed)
    values = np.concatenate([values, rng.uniform(-high * is_signed, high, 12)])
    images = noise(rng, *size, n=len(values))
    expected = by_pillow(images, function, values)
    if name == "posterize":
        values = np.maximum(values, 1)
    assert torch.equal(getattr(ops, name)(images, torch.from_numpy(values)), expected)


@pytest.mark.parametrize("size", SIZES)
def test_cutout_equals_pillows_rectangle(rng, size):
    h, w = size
    images = noise(rng, h, w, n=40)
    side = np.concatenate([np.arange(20) * 2.0, rng.uniform(0, 40, 20)])
    x, y = rng.uniform(0, w, 40), rng.uniform(0, h, 40)
    result = ops.cutout_abs(images, *map(torch.from_numpy, (side, x, y)))
    assert torch.equal(result, by_pillow(images, cut_out, side, x, y))


@pytest.mark.parametrize("degrees", [0, 90, 180, 270, -90, 360, 45.5])
def test_large_angles_equal_pillow(rng, degrees):
    for size in ((8, 8), (7, 7), (6, 9)):
        images = noise(rng, *size)
        expected = by_pillow(images, lambda i: i.rotate(degrees))
        assert torch.equal(ops.rotate(images, degrees), expected)


def test_autocontrast_equals_pillow_for_every_lowest_and_highest_value():
    # All 256 values between the two, for each of a third of the pairs.
    pairs = [(low, high) for low in range(0, 255, 5) for high in range(low + 1, 256, 3)]
    low, high = (torch.tensor(side) for side in zip(*pairs, strict=True))
    ramps = torch.arange(256).clamp(low[:, None], high[:, None])
    images = ramps.to(torch.uint8).reshape(-1, 1, 16, 16).expand(-1, 3, -1, -1)
    expected = by_pillow(images, ImageOps.autocontrast)
    assert torch.equal(ops.autocontrast(images), expected)


def test_blends_equal_pillow_for_every_pair_of_values():
    # Brightness and colour meet all factors and values; contrast blends two greys.
    greys = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    images = greys.expand(31, 3, 16, 16).clone()
    images[:, 1] = images[:, 1].flip(1)
    factors = magnitudes(0.1, 1.9, is_signed=False)
    for name in ("color", "contrast", "brightness", "sharpness"):
        expected = by_pillow(images, WITH_VALUE[name][0], factors)
        result = getattr(ops, name)(images, torch.from_numpy(factors))
        assert torch.equal(result, expected), name


@pytest.mark.parametrize("magnitude", [6, 9, 18])
def test_photographs_equal_pillow_bit_by_bit(photographs, magnitude, rng):
    images = photographs
    n = len(images)
    for name, function in WITHOUT_VALUE.items():
        assert torch.equal(getattr(ops, name)(images), by_pillow(images, function))
    for name, (function, low, high, is_signed) in WITH_VALUE.items():
        value = (magnitude / 30) * (high - low) + low
        sign = rng.choice([-1, 1], n) if is_signed else np.ones(n)
        expected = by_pillow(images, function, sign * value)
        given = np.maximum(sign * value, 1) if name == "posterize" else sign * value
        result = getattr(ops, name)(images, torch.from_numpy(given))
        assert torch.equal(result, expected), name


@pytest.fixture(scope="module")
def photographs():
    """Give pictures with edges, shades and texture: those of scikit-learn."""
    from sklearn.datasets import load_sample_images  # noqa: PLC0415  # slow to import

    pictures = np.stack(load_sample_images().images)
    tiles = pictures[:, :384, :576].reshape(2, 12, 32, 18, 32, 3)
    tiles = tiles.transpose(0, 1, 3, 5, 2, 4).reshape(-1, 3, 32, 32)
    return torch.from_numpy(tiles[::3].copy())


def test_a_number_means_the_same_as_one_per_sample(rng):
    images = noise(rng, 9, 8)
    for name in WITH_VALUE:
        operation = getattr(ops, name)
        single = operation(images, 1.3)
        each = torch.full((len(images),), 1.3, dtype=torch.float64)
        assert torch.equal(single, operation(images, each)), name


def test_operations_leave_their_input_alone(rng):
    images = noise(rng, 8, 8)
    before = images.clone()
    for name in OPERATIONS:
        values = {"cutout_abs": (3, 4.0, 4.0)}.get(name, (2,) * (name in WITH_VALUE))
        getattr(ops, name)(images, *values)
        assert torch.equal(images, before), name


def test_memory_layout_does_not_matter(rng):
    images = noise(rng, 8, 6)
    other = images.contiguous(memory_format=torch.channels_last)
    for name in OPERATIONS:
        values = {"cutout_abs": (3, 4.0, 4.0)}.get(name, (2,) * (name in WITH_VALUE))
        operation = getattr(ops, name)
        assert torch.equal(operation(images, *values), operation(other, *values)), name


@pytest.mark.parametrize("side", [8, 20, 32, 64])
@pytest.mark.parametrize("size", [(28, 28), (32, 32), (64, 64), (75, 75), (20, 33)])
def test_resize_equals_pillow_bit_by_bit(rng, size, side):
    images = noise(rng, *size)
    bilinear = Image.Resampling.BILINEAR
    expected = by_pillow(images, lambda i: i.resize((side, side), bilinear))
    assert torch.equal(resize(images, side), expected)


def test_resize_of_tall_images_is_pillows_up_to_the_order_of_its_passes(rng):
    # Some versions of Pillow shrink a tall image along its columns first, which may
    # round to the next grey.
    images = noise(rng, 75, 45)
    bilinear = Image.Resampling.BILINEAR
    expected = by_pillow(images, lambda i: i.resize((32, 32), bilinear))
    assert (resize(images, 32).int() - expected.int()).abs().max() <= 1


def test_a_wrong_parameter_is_named(rng):
    images = noise(rng, 8, 8)
    with pytest.raises(ValueError, match=r"rotate: degrees must be a number, or one"):
        ops.rotate(images, torch.zeros(5))
    with pytest.raises(ValueError, match=r"color: factor must be a number"):
        ops.color(images, "much")
    with pytest.raises(ValueError, match=r"resize: side must be an integer >= 1"):
        resize(images, 0)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_names_itself_when_images_are_wrong(name):
    values = {"cutout_abs": (3, 4.0, 4.0)}.get(name, (2,) * (name in WITH_VALUE))
    with pytest.raises(ValueError, match=rf"^{name}: images must be a uint8 tensor"):
        getattr(ops, name)(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), *values)
