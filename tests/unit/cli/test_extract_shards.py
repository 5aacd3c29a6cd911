"""WebDataset shards: every sample is read, or the shard is refused."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from openset._types import ArtefactError
from openset.cli._extract_shards import _unpacked, input_shards


def archive(*names):
    """Return the bytes of a .tar file with an image or a class number per name."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for number, name in enumerate(names):
            content = io.BytesIO()
            if name.endswith(".cls"):
                content.write(b"1")
            else:
                Image.new("RGB", (2, 2), (number, 0, 0)).save(content, "png")
            info = tarfile.TarInfo(name)
            info.size = content.tell()
            content.seek(0)
            tar.addfile(info, content)
    return data.getvalue()


GOOD = archive("a.png", "a.cls", "b.png", "b.cls")
SECOND = 2 * 512 + 2 * 512  # header and data of a.png and of a.cls: b.png begins


def read(tmp_path, content):
    path = tmp_path / "one.tar"
    path.write_bytes(content)
    (tmp_path / "images").mkdir()
    return _unpacked(path, tmp_path / "images", 2)


def test_images_labels_and_names_agree(tmp_path):
    inputs, labels, ids = read(tmp_path, GOOD)
    assert [image[0, 0, 0] for image in inputs] == [0, 2]
    assert (labels.tolist(), ids) == ([1, 1], ["a.png", "b.png"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[: SECOND + 100], "cut off after 2 members"),
        (GOOD[:SECOND], "cut off after 2 members"),
        (
            GOOD[:SECOND] + b"?" + GOOD[SECOND + 1 :],
            "no member follows the 2 read, but other bytes",
        ),
        (GOOD + GOOD, "no member follows the 4 read, but other bytes"),
        (archive("a.png", "a.seg.png"), "two images of one sample: a.png and a.seg"),
        (archive("a.png", "b.gif"), "got b.gif. Convert it"),
    ],
    ids=["in a header", "between members", "damaged", "appended", "twice", "gif"],
)
def test_shard_with_samples_that_would_be_lost_is_refused(tmp_path, content, message):
    with pytest.raises(ArtefactError, match=message):
        read(tmp_path, content)


def test_shards_whose_results_would_have_one_name_are_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(GOOD)
    np.save(tmp_path / "a.npy", np.zeros(2))
    with pytest.raises(ValueError, match="got several called a"):
        input_shards(tmp_path)
