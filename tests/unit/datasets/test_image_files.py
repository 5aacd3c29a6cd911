"""Image files of every kind that Pillow writes become RGB with 8 bits."""

import numpy as np
import pytest

from openset import ArtefactError, datasets
from openset.datasets import lazy_inputs

image = pytest.importorskip("PIL.Image")

GREY = np.arange(256, dtype=np.uint8).reshape(16, 16)


def saved(array, path):
    image.fromarray(array).save(path)
    return path


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_are_scaled_not_clipped(name, tmp_path):
    path = saved(GREY.astype(np.uint16) * 257, tmp_path / name)
    rgb = lazy_inputs.decode(path, path, mode="RGB")
    np.testing.assert_array_equal(rgb, np.repeat(GREY[:, :, None], 3, axis=2))
    np.testing.assert_array_equal(lazy_inputs.decode(path, path, mode="L"), GREY)


def test_sixteen_bits_of_older_pillow_are_scaled(tmp_path):
    # Pillow up to 11 opened such a PNG in mode I, without the ;16.
    old = image.fromarray(GREY.astype(np.int32) * 257)
    old.format = "PNG"
    np.testing.assert_array_equal(np.asarray(lazy_inputs.converted(old, "L")), GREY)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_thirty_two_bits_are_refused(dtype, tmp_path):
    path = saved(GREY.astype(dtype), tmp_path / "wide.tif")
    with pytest.raises(ArtefactError, match=r"wide\.tif.* 8 or 16 bits, got 32"):
        lazy_inputs.decode(path, path, mode="RGB")


def test_a_folder_mixes_kinds_of_images(tmp_path):
    for kind, array in {
        "grey.PNG": GREY,
        "deep ü.png": GREY.astype(np.uint16) * 257,
        "alpha.png": np.dstack([GREY] * 3 + [np.full_like(GREY, 255)]),
        "rgb.tif": np.dstack([GREY] * 3),
    }.items():
        (tmp_path / "Käfer").mkdir(exist_ok=True)
        saved(array, tmp_path / "Käfer" / kind)
    images = datasets.load(str(tmp_path)).inputs
    assert len(images) == 4
    for one in images:
        np.testing.assert_array_equal(one, np.dstack([GREY] * 3))


def test_the_server_and_networks_read_sixteen_bits_alike(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("fastapi")
    from openset.integrations import _preprocessing  # noqa: PLC0415
    from openset.serve import _images  # noqa: PLC0415

    path = saved(GREY.astype(np.uint16) * 257, tmp_path / "deep.png")
    served = _images.decoded([("deep.png", path.read_bytes())])[0]
    np.testing.assert_array_equal(served[:, :, 0], GREY)
    prepared = _preprocessing.image(GREY.astype(np.uint16) * 257)
    np.testing.assert_array_equal(np.asarray(prepared)[:, :, 0], GREY)
