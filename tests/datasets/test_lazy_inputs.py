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


def test_thirty_two_bits_are_refused(tmp_path):
    for dtype in (np.float32, np.int32):
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


def test_image_files_are_not_joined_with_pixels_of_another_range():
    files = lazy_inputs.ImageFiles(("a.png",))
    with pytest.raises(TypeError, match="images must be uint8 in all parts and data"):
        lazy_inputs.join("cut", [files, np.zeros((1, 2, 2))])
    assert len(lazy_inputs.join("cut", [files, GREY[None]])) == 2


@pytest.mark.parametrize("name", ["b.gif", "B.HEIC"])
def test_images_of_a_kind_not_read_are_not_left_out_in_silence(tmp_path, name):
    (tmp_path / "a.png").touch()
    (tmp_path / "notes.txt").touch()
    assert lazy_inputs.image_paths(tmp_path) == [str(tmp_path / "a.png")]
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"got .*{name}. Convert it, or move it away"):
        lazy_inputs.image_paths(tmp_path)


def test_inputs_are_joined_and_picked_in_order(tmp_path):
    for i in range(4):
        saved(np.full((2, 2, 3), i, np.uint8), tmp_path / f"{i}.png")
    whole = datasets.load(tmp_path).inputs
    one, other = whole.take(np.arange(3)), whole.take(np.arange(3, 4))
    pixels = np.full((1, 2, 2, 3), 9, np.uint8)
    both = lazy_inputs.join("cut", [one, other, pixels])
    assert [int(both[i][0, 0, 0]) for i in (0, 3, 4, -1)] == [0, 3, 9, 9]
    with pytest.raises(IndexError):
        both[5]
    picked = both.take(np.array([3, 1, 4])).take(np.array([1, 0]))
    assert [int(picked[i].max()) for i in range(len(picked))] == [1, 3]
    assert [int(x.max()) for x in one] == [0, 1, 2]


def test_a_damaged_or_vanished_image_is_named_when_it_is_read(tmp_path):
    path = saved(GREY, tmp_path / "cats.png")
    whole = path.read_bytes()
    files = lazy_inputs.ImageFiles((str(path),))
    for content in (whole[:40], b"no image"):
        path.write_bytes(content)
        with pytest.raises(ArtefactError, match=r"cats.png is damaged or not an image"):
            files[0]
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no such image: .*cats.png"):
        files[0]


def test_images_of_any_size_can_be_brought_to_one(tmp_path):
    for i, size in enumerate([(4, 4), (9, 3)]):
        saved(np.full((*size, 3), 90 + i, np.uint8), tmp_path / f"{i}.png")
    whole = datasets.load(tmp_path)
    found = datasets.resized(whole, 6)
    assert found.inputs.shape == (2, 6, 6, 3)
    assert found.inputs[0].min() == found.inputs[0].max() == 90
    assert datasets.resized(whole, 4, channels=1).inputs.shape == (2, 4, 4)
    assert lazy_inputs.common_side([whole.inputs]) is None
    assert lazy_inputs.common_side([found.inputs]) == 6
    with pytest.raises(ValueError, match="channels must be 1 or 3, got 2"):
        datasets.resized(found, 6, channels=2)
    with pytest.raises(ValueError, match="dataset must be of images, got 'table'"):
        datasets.resized(datasets.load("digits"), 8)
