"""Draws, crops, normalisation and pipelines."""

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from scipy import stats

from openset.train import recipe
from openset.train.augment import (
    Normalize,
    Pipeline,
    crop_and_flip,
    ops,
    rand_augment,
    resize,
)

OPERATIONS = tuple(ops.TABLE)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def of_recipe(data, name="ceplus"):
    return recipe(name, data).pipeline


def pictures(n=64, h=32, w=32, seed=1):
    return torch.randint(256, (n, 3, h, w), dtype=torch.uint8, generator=seeded(seed))


def only(*names):
    return [name for name in OPERATIONS if name not in names]


def outcomes(images, magnitude):
    """Give all that one operation can make of the images, by name; cut-outs aside."""

    def value(low, high):
        return (magnitude / 30) * (high - low) + low

    made = {name: [getattr(ops, name)(images)] for name in OPERATIONS[:3]}
    made["posterize"] = [ops.posterize(images, max(value(0, 4), 1))]
    made["solarize"] = [ops.solarize(images, value(0, 256))]
    made["solarize_add"] = [ops.solarize_add(images, value(0, 110))]
    for name in ("color", "contrast", "brightness", "sharpness"):
        made[name] = [getattr(ops, name)(images, value(0.1, 1.9))]
    signed = {"rotate": 30, "shear_x": 0.3, "shear_y": 0.3}
    for name, high in (signed | {"translate_x": 100, "translate_y": 100}).items():
        made[name] = [getattr(ops, name)(images, s * value(0, high)) for s in (1, -1)]
    return made


def counts(image, out, magnitude):
    """Count what became of many copies of one image; the rest was cut out."""
    found = {}
    left = torch.ones(len(out), dtype=torch.bool)
    for name, results in outcomes(image, magnitude).items():
        for sign, result in enumerate(results):
            is_it = (out == result).flatten(1).all(1)
            assert not (is_it & ~left).any()  # no two have the same outcome
            found[name, sign] = int(is_it.sum())
            left &= ~is_it
    grey = torch.tensor([125, 123, 114], dtype=torch.uint8).reshape(1, 3, 1, 1)
    assert ((out[left] == image) | (out[left] == grey)).all()
    found["cutout_abs", 0] = int(left.sum())
    return found


@pytest.mark.parametrize("without", [(), ("rotate", "translate_x", "translate_y")])
def test_operations_are_drawn_uniformly_and_signs_are_fair(without):
    image = (pictures(1, 20, 20) * 0.8).to(torch.uint8)  # something to stretch
    images = image.expand(6000, -1, -1, -1)
    found = counts(image, rand_augment(images, 1, 3, seeded(), without), 3)
    names = [name for name in OPERATIONS if name not in without]
    per_name = {name: found[name, 0] + found.get((name, 1), 0) for name in OPERATIONS}
    assert [name for name in OPERATIONS if per_name[name]] == names
    assert stats.chisquare([per_name[name] for name in names]).pvalue > 0.01
    signs = {0: 0, 1: 0}
    for name in ("rotate", "shear_x", "shear_y", "translate_x", "translate_y"):
        for sign in signs:
            signs[sign] += found[name, sign]
    assert stats.chisquare(list(signs.values())).pvalue > 0.01


def test_value_is_linear_in_the_magnitude():
    images = pictures(8)
    expected = {
        ("rotate", 0): images,
        ("solarize", 30): images,  # nothing reaches a threshold of 256
        ("solarize", 0): 255 - images,
        ("solarize_add", 0): ops.solarize(images, 128),
        ("solarize_add", 18): ops.solarize_add(images, 66),
        ("color", 15): images,
        ("contrast", 15): images,
        ("brightness", 15): images,
        ("sharpness", 15): images,
        ("color", 0): ops.color(images, 0.1),
        ("contrast", 30): ops.contrast(images, 1.9),
        ("posterize", 6): ops.posterize(images, 1),  # 0.8 bits, at least 1
        ("posterize", 18): ops.posterize(images, 2),  # 2.4 bits
        ("posterize", 30): ops.posterize(images, 4),
        ("translate_x", 30): torch.zeros_like(images),
        ("shear_y", 0): images,
    }
    for (name, magnitude), wanted in expected.items():
        out = rand_augment(images, 1, magnitude, seeded(), only(name))
        assert torch.equal(out, wanted), (name, magnitude)


def test_samples_keep_their_place_and_are_augmented_one_by_one():
    # Every result must be what one operation makes of *its own* image.
    images = (pictures(400) * 0.8).to(torch.uint8)
    out = rand_augment(images, 1, 6, seeded(3))
    made = [one for results in outcomes(images, 6).values() for one in results]
    is_one = torch.stack([(out == one).flatten(1).all(1) for one in made])
    grey = torch.tensor([125, 123, 114], dtype=torch.uint8).reshape(1, 3, 1, 1)
    is_cut = ((out == images) | (out == grey)).flatten(1).all(1)
    assert ((is_one.sum(0) + is_cut) == 1).all()
    assert is_one.any(1).all()


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_state_gives_the_same_result(device):
    images = pictures(300)
    pipeline = of_recipe("cub")
    here = pipeline.augment(images[:2], seeded(4))
    there = pipeline.augment(images[:2].to(device), seeded(4))
    assert torch.equal(here, there.cpu())
    here = rand_augment(images, 2, 9, seeded(4))
    there = rand_augment(images.to(device), 2, 9, seeded(4))
    assert torch.equal(here, there.cpu())
    assert not torch.equal(here, rand_augment(images, 2, 9, seeded(5)))


def test_pieces_do_not_change_the_result(monkeypatch):
    images = pictures(200)
    pipeline = of_recipe("cifar10")
    whole = pipeline.augment(images, seeded(6))
    monkeypatch.setattr("openset.train.augment._CACHED", 7 * 3 * 32 * 32)
    assert torch.equal(pipeline.augment(images, seeded(6)), whole)


def test_crops_are_windows_of_the_padded_image_and_their_mirrors():
    images = pictures(500, 5, 7)
    out = crop_and_flip(images, 2, generator=seeded())
    framed = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
    seen = []
    for framed_one, out_one in zip(framed, out.numpy(), strict=True):
        windows = sliding_window_view(framed_one, (3, 5, 7))[0]  # by top and left
        both = np.stack([windows, windows[..., ::-1]], axis=2)
        found = np.argwhere((both == out_one).all(axis=(3, 4, 5)))
        assert len(found) == 1
        seen.append(found[0])
    tops, lefts, mirrors = zip(*seen, strict=True)
    for drawn, n_values in ((tops, 5), (lefts, 5), (mirrors, 2)):
        assert stats.chisquare(np.bincount(drawn, minlength=n_values)).pvalue > 0.01


MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalising_is_the_formula(dtype, device):
    images = pictures(5, 4, 6)
    out = Normalize(MEAN, STD).to(device, dtype)(images.to(device)).cpu()
    mean, std = (np.reshape(one, (3, 1, 1)) for one in (MEAN, STD))
    assert out.dtype == dtype
    np.testing.assert_allclose(out, (images.numpy() / 255 - mean) / std, atol=2e-6)


def test_pipeline_ceplus_is_its_parts_in_order():
    images = pictures(40, 28, 28)
    pipeline = of_recipe("mnist")
    generator = seeded(7)
    parts = rand_augment(images, 1, 8, generator, pipeline.without)
    cropped = crop_and_flip(resize(parts, 32), 4, generator=generator)
    assert torch.equal(pipeline.augment(images, seeded(7)), cropped)
    expected = Normalize(MEAN, STD)(cropped)
    assert torch.equal(pipeline.normalizer()(cropped), expected)


WRONG = {
    "Pipeline: n_ops must be an integer >= 0, got -1": {"n_ops": -1},
    r"magnitude must be a number in \[0, 30\], got 40": {"magnitude": 40},
    "without must be one of 'autocontrast'.*'rotate'": {"without": ("rotat",)},
    "side must be an integer >= 1, got 0": {"side": 0},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_fields_are_refused_by_name(message):
    with pytest.raises(ValueError, match=message):
        Pipeline(**WRONG[message])
