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
    served = _images.decoded([("deep.png", path.read_bytes())], keep=False)[0]
    np.testing.assert_array_equal(served[:, :, 0], GREY)
    prepared = _preprocessing.image(GREY.astype(np.uint16) * 257)
    np.testing.assert_array_equal(np.asarray(prepared)[:, :, 0], GREY)


def folders(root, *names):
    for name in names:
        (root / name).mkdir(parents=True)
        saved(GREY, root / name / "0.png")
    return str(root)


@pytest.mark.parametrize(
    "names",
    [
        ["train/a", "test/a", "notes"],
        ["Train/a", "Test/a"],
        ["training/a", "testing/a"],
    ],
)
def test_parts_are_not_read_as_classes(names, tmp_path):
    with pytest.raises(ArtefactError, match=r"must be CLASS/image\.jpg, or PART"):
        datasets.load(folders(tmp_path, *names))


def test_a_class_may_have_the_name_of_a_part(tmp_path):
    found = datasets.load(folders(tmp_path, "train", "bus", "tram/old"))
    assert found.classes == ("bus", "train", "tram")


def test_two_validation_parts_are_refused(tmp_path):
    path = folders(tmp_path, "train/a", "val/a", "valid/a")
    with pytest.raises(ArtefactError, match="must have one validation part"):
        datasets.load(path)


def test_image_files_are_not_joined_with_pixels_of_another_range():
    files = lazy_inputs.ImageFiles(("a.png",))
    with pytest.raises(TypeError, match="images must be uint8 in all parts and data"):
        lazy_inputs.join("cut", [files, np.zeros((1, 2, 2))])
    assert len(lazy_inputs.join("cut", [files, GREY[None]])) == 2


@pytest.mark.parametrize("name", ["b.gif", "B.HEIC", "b.jfif"])
def test_images_of_a_kind_not_read_are_not_left_out_in_silence(tmp_path, name):
    (tmp_path / "a.png").touch()
    (tmp_path / "notes.txt").touch()
    assert lazy_inputs.image_paths(tmp_path) == [str(tmp_path / "a.png")]
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"got .*{name}. Convert it, or move it away"):
        lazy_inputs.image_paths(tmp_path)
