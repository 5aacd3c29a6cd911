"""Outputs for data by name: folders, lists, texts, arrays, archives."""

import io
import tarfile
from unicodedata import normalize

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from torch import nn

from openset import ArtefactError, InvalidSamplesError, extract
from openset.datasets import image_lists
from openset.datasets.lazy_inputs import DamagedImageError
from tests.train.tiny import fit_tiny, image_data

SIDE, CLASSES = 16, ("ant", "Käfer", "cat", "dog")
HOW = {"progress": False, "device": "cpu"}


class Contrast(nn.Module):
    """Divide by the contrast: an image of one colour becomes NaN."""

    def forward(self, images):  # noqa: D102
        away = images - images.mean(dim=(1, 2, 3), keepdim=True)
        return away / away.square().mean(dim=(1, 2, 3), keepdim=True).sqrt()


def small():
    torch.manual_seed(0)
    return nn.Sequential(
        Contrast(), nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip


def network(**options):
    return extract.load(small(), side=SIDE, **{"classes": CLASSES} | options)


def encoded(pixels, kind="png"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


PIXELS = np.random.default_rng(0).integers(0, 256, (11, SIDE, SIDE, 3), dtype=np.uint8)
GOOD = {f"{i:02}.png": encoded(one) for i, one in enumerate(PIXELS)}
JPEG = encoded(PIXELS[0], "jpeg")
BOMB = b"BM" + bytes(12) + (40).to_bytes(4, "little") + b"\xff\xff\x00\x00" * 2
DAMAGED = {
    "00-first.jpg": JPEG[: len(JPEG) // 2],
    "04-empty.jpg": b"",
    "04-text.jpg": b"<html>404 Not Found</html>",
    "07-flipped.png": GOOD["07.png"][:50] + b"?" + GOOD["07.png"][51:],
    "07-huge.bmp": BOMB + b"\x01\x00\x18\x00" + bytes(24),
    "99-last.png": GOOD["03.png"][:200],
}


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def tar_of(path, members):
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def alone(names):
    """Return the logits of single images, one by one."""
    rows = [network().apply(PIXELS[i : i + 1], **HOW).logits[0] for i in names]
    return np.stack(rows)


def test_labels_and_groups_follow_the_names_of_folders(tmp_path):
    """Names are compared as they are read: a Mac stores ü as two characters."""
    names = ["else/02.png", normalize("NFD", "Käfer/00.png"), "cat/01.png"]
    write(tmp_path, {one: GOOD[one[-6:]] for one in names})
    found = extract.run(network(), tmp_path, **HOW)
    by_name = dict(zip(found.ids.tolist(), found.labels.tolist(), strict=True))
    assert by_name == {"cat/01.png": 2, names[1]: 1, "else/02.png": -1}
    assert [one.partition("/")[0] for one in found.ids] == found.groups.tolist()
    rows = [int(one[-5]) for one in found.ids]
    np.testing.assert_allclose(found.logits, alone(rows), atol=1e-5)
    assert set(extract.run(network(), tmp_path, unknown=True, **HOW).labels) == {-1}
    bare = extract.run(network(classes=()).without_head(), tmp_path, **HOW)
    assert {*bare.classes} == {"cat", "else", names[1].partition("/")[0]}
    assert bare.logits is None
    assert bare.labels.min() == 0


def test_arrays_and_parts(tmp_path):
    np.save(tmp_path / "new.npy", PIXELS)
    found = extract.run(network(), tmp_path / "new.npy", **HOW)
    assert (found.labels, found.groups, found.ids) == (None, None, None)
    labels = np.arange(11) % 2
    both = {"inputs": PIXELS, "labels": labels}
    both = {name: np.concatenate([one[:3], one]) for name, one in both.items()}
    about = {"classes": ["dog", "noise"], "part_test": np.arange(3, 14)}
    np.savez(tmp_path / "set.npz", **both, **about)
    part = extract.run(network(), tmp_path / "set.npz", part="test", **HOW)
    assert_array_equal(part.labels, np.where(labels == 0, 3, -1))
    assert set(part.groups) == {"dog", "noise"}
    assert_array_equal(part.logits, found.logits)


def test_a_list_chooses_orders_and_labels(tmp_path):
    names = ["a b/00.png", "a b/01.png", "deep/er/02.png", "03.png"]
    write(tmp_path / "images", {one: GOOD[one[-6:]] for one in names})
    # A byte order mark, line ends of Windows, a tab, a space in a name, a label of -2.
    text = "\ufeff03.png 3\r\n\r\ndeep/er/02.png\t-2\r\na b/01.png  0\r\n"
    (tmp_path / "some.txt").write_bytes(text.encode())
    for given in (tmp_path / "some.txt", image_lists.read(tmp_path / "some.txt")):
        found = extract.run(network(), tmp_path / "images", image_list=given, **HOW)
        assert found.labels.tolist() == [3, -1, 0]
        assert found.ids.tolist() == ["03.png", "deep/er/02.png", "a b/01.png"]
        assert found.groups.tolist() == ["dog", "some", "ant"]
        np.testing.assert_allclose(found.logits, alone([3, 2, 1]), atol=1e-5)


def same_rows(found, plain):
    """Check that damaged images are NaN, and the others as if these were not there."""
    is_bad = np.isin(found.ids, list(DAMAGED))
    assert is_bad.sum() == len(DAMAGED)
    assert_array_equal(found.is_invalid, is_bad)
    for name in ("logits", "features"):
        array = getattr(found, name)
        assert np.isnan(array[is_bad]).all()
        assert_array_equal(array[~is_bad], getattr(plain, name), strict=True)
    assert_array_equal(found.ids[~is_bad], plain.ids)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Make a folder of good images, and one of these among damaged ones."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "plain" / "photos", GOOD)
    write(tmp_path / "mixed" / "photos", GOOD | DAMAGED)


def check_damaged(opened, **how):
    """Check that damaged images become NaN if wanted, and change nothing else."""
    how = HOW | how | {"unknown": True}
    first = extract.run(opened, "plain/photos", **how).take(slice(None)).to("numpy")
    with pytest.raises(DamagedImageError, match=r"00-first\.jpg is damaged") as said:
        extract.run(opened, "mixed/photos", **how)
    assert "invalid='keep'" in said.value.__notes__[0]
    found = extract.run(opened, "mixed/photos", invalid="keep", **how)
    if "out" not in how:
        same_rows(found, first)
    assert found.is_invalid.sum() == len(DAMAGED)
    assert set(found.labels) == {-1}


@pytest.mark.parametrize(
    "how",
    [
        {"batch_size": 3},
        {"batch_size": 3, "layers": ["1", "3"]},
        {"batch_size": 4, "step": extract.Odin(epsilon=0.01)},
        {"batch_size": 3, "out": "folder"},
    ],
)
def test_rows_of_nan_leave_the_others_bit_for_bit(folders, how):
    check_damaged(network(), **how)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch
def test_rows_of_nan_of_an_onnx_file(folders):
    pytest.importorskip("onnxscript")
    torch.onnx.export(
        small().eval(), (torch.rand(2, 3, SIDE, SIDE),), "model.onnx", dynamo=True,
        verbose=False, dynamic_shapes=({0: torch.export.Dim("n")},),
    )  # fmt: skip
    check_damaged(extract.load("model.onnx"), batch_size=3)


def test_rows_of_nan_of_a_run(folders):
    fit_tiny(image_data(side=SIDE), network="osrci", epochs=1, out="run")
    opened = extract.load("run")
    check_damaged(opened)
    check_damaged(opened, layers=[*opened.layers][:1])
    assert opened.without_head().apply(PIXELS, **HOW).logits is None


def test_nan_of_the_network_from_a_fine_image_is_named_or_kept(tmp_path):
    grey = {"05-grey.png": encoded(np.full((SIDE, SIDE, 3), 7, np.uint8))}
    folder = write(tmp_path, GOOD | grey)
    with pytest.raises(InvalidSamplesError) as said:
        extract.run(network(), folder, **HOW)
    assert "invalid='keep'" in said.value.__notes__[0]
    found = extract.run(network(), folder, invalid="keep", **HOW)
    assert found.ids[found.is_invalid].tolist() == list(grey)


A, B = (encoded(np.full((2, 2, 3), one, np.uint8)) for one in (7, 9))
MEMBERS = [("a.png", A), ("a.cls", b"1"), ("b.png", B), ("b.cls", b"9")]
SECOND = 2 * 512 + 2 * 512  # header and data of a.png and of a.cls: b.png begins


def test_an_archive_is_a_webdataset(tmp_path):
    members = [(f"set/{one[0]}", one[1]) for one in GOOD.items()]
    labels = [(f"set/{name[:2]}.cls", name[:2].encode()) for name in GOOD]
    path = tar_of(tmp_path / "a.tar", [*members, *labels])
    found = extract.run(network(), path, batch_size=3, **HOW)
    assert found.ids.tolist() == [f"set/{name}" for name in GOOD]
    assert found.labels.tolist() == [i if i < 4 else -1 for i in range(11)]
    np.testing.assert_allclose(found.logits, alone(range(11)), atol=1e-5)
    broken = tar_of(tmp_path / "b.tar", [*members, ("set/x.jpg", b"no image")])
    with pytest.raises(DamagedImageError, match=r"set/x\.jpg of .*b\.tar is damaged"):
        extract.run(network(), broken, **HOW)


def test_shards_with_samples_that_would_be_lost_are_refused(tmp_path):
    good = tar_of(tmp_path / "good.tar", MEMBERS).read_bytes()
    twice = [("a.png", A), ("a.seg.png", B)]
    cases = {
        "after 2 files": (
            *(good[: SECOND + 100], good[:SECOND]),
            good[:SECOND] + b"?" + good[SECOND + 1 :],
        ),
        "cut off or damaged after 4 files": (good + good,),
        "2 images of 1 samples": (twice,),
        "got b.gif. Convert it": ([("a.png", A), ("b.gif", B)],),
        "got 0 images": ([("a.cls", b"0")],),
        "2 samples, 1 .cls": (MEMBERS[:3],),
        "damaged or not a WebDataset": (b"", b"no archive"),
    }
    path = tmp_path / "one.tar"
    for words, contents in cases.items():
        for content in contents:
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                tar_of(path, content)
            with pytest.raises((ArtefactError, ValueError)) as said:
                extract.run(network(), path, **HOW)
            assert words in str(said.value)


WRONG = {
    "'photos/trian', and there is no": ("photos/trian", {}),
    "Did you mean 'cifar10'?": ("cifr10", {}),
    "both (01.png, class/)": ("both", {}),
    "empty.npy": ("empty.npy", {}),
    "text.npy": ("text.npy", {}),
    "part must be one of": ("digits", {"part": "tset"}),
    "part must be left out for data without": ("array.npy", {"part": "test"}),
    "part must be left out": ("plain", {"image_list": "l.txt", "part": "a"}),
    "No such file": ("plain", {"image_list": "no.txt"}),
    "labels must be below 4": ("plain", {"image_list": "l.txt"}),
    "plain without 1 of them": ("plain", {"image_list": "missing.txt"}),
    "invalid must be one of": ("plain", {"invalid": "drop"}),
}


def test_what_is_wrong_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "both", {"class/00.png": GOOD["00.png"], "01.png": b""})
    write(tmp_path / "plain", GOOD)
    write(tmp_path, {"empty.npy": b"", "text.npy": b"no array"})
    np.save("array.npy", PIXELS)
    (tmp_path / "l.txt").write_text("00.png 1\n01.png 199\n", "utf-8")
    (tmp_path / "missing.txt").write_text("x/00.png 1\n", "utf-8")
    for words, (data, options) in WRONG.items():
        with pytest.raises((ValueError, OSError, EOFError)) as said:
            extract.run(network(), data, **HOW | options)
        notes = getattr(said.value, "__notes__", ())
        assert words in " ".join([str(said.value), *notes])
