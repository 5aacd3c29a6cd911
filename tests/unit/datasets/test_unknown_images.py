"""Image sets to test ImageNet classifiers with: generated images, real layouts."""

import numpy as np
import pytest

from openset import ArtefactError, datasets, reproduce
from openset.datasets import load
from openset.protocols import published

pytest.importorskip("PIL")
from PIL import Image


def image(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(path)


def names(dataset):
    return [dataset.classes[i] for i in dataset.labels]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("inaturalist", "iNaturalist/images"),
        ("places-mos", "Places/images"),
        ("sun-mos", "SUN/images"),
        ("openimage-o", "openimage_o/images"),
    ],
)
def test_a_flat_folder_is_one_class(tmp_path, name, folder):
    for i in range(3):
        image(tmp_path / name / folder / f"{i}.png", i)
    found = load(name, tmp_path)
    assert names(found.part("test")) == [name] * 3
    assert [int(one[0, 0, 0]) for one in found.inputs] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "folder"),
    [("ninco", "NINCO/NINCO_OOD_classes"), ("imagenet-o", "imagenet-o")],
)
def test_a_folder_per_class_gives_the_classes(tmp_path, name, folder):
    for group in ("b", "a"):
        image(tmp_path / folder / group / "1.png")  # beside other sets, too
    assert names(load(name, tmp_path)) == ["a", "b"]


def test_a_list_names_the_images_and_perhaps_their_classes(tmp_path):
    top = tmp_path / "openimage-o"
    for i in range(4):
        image(top / "openimage_o" / "images" / f"{i}.png", i)
    listed = top / "openimage-o.txt"
    listed.write_text("openimage_o/images/2.png -1\n0.png Cat bus\n", encoding="utf-8")
    found = load("openimage-o", tmp_path)
    assert names(found) == ["openimage-o", "Cat bus"]
    assert [int(one[0, 0, 0]) for one in found.inputs] == [2, 0]
    listed.write_bytes(b"\xff\xfe1.png")
    with pytest.raises(ArtefactError, match="is not a text file"):
        load("openimage-o", tmp_path)
    listed.write_text("9.png\n", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"names '9.png', which is not in"):
        load("openimage-o", tmp_path)
    listed.write_text("../secret.png\n", encoding="utf-8")
    with pytest.raises(ArtefactError, match="a path out of its folder"):
        load("openimage-o", tmp_path)


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("a 1.PNG", ""), ("a 1.PNG -1", ""), ("a 1.PNG 7", "7"),
        ("\ufeffa 1.PNG  Cat bus ", "Cat bus"), ("x/a 1.PNG\tn01", "n01"),
    ],
)  # fmt: skip
def test_names_in_a_list_may_have_spaces(tmp_path, line, label):
    top = tmp_path / "openimage-o"
    image(top / "openimage_o" / "images" / "a 1.PNG")
    (top / "openimage-o.txt").write_text(f"{line}\n\n", encoding="utf-8")
    assert names(load("openimage-o", tmp_path)) == [label or "openimage-o"]


def imagenetv2(root, numbers=(0, 2, 10)):
    top = root / "imagenetv2" / "imagenetv2-matched-frequency-format-val"
    for number in numbers:
        image(top / str(number) / "a.png", number)


def test_numbers_of_imagenetv2_are_ranks_of_wordnet_ids(tmp_path):
    imagenetv2(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"imagenet_wnids.txt, one per line"):
        load("imagenetv2", tmp_path)
    wnids = [f"n{i:08d}" for i in range(11)]
    listed = tmp_path / "imagenetv2" / "imagenet_wnids.txt"
    listed.write_text("\n".join(reversed(wnids)), encoding="utf-8")
    found = load("imagenetv2", tmp_path)
    # 10 is the eleventh class, not the one after 1 as folders are sorted.
    values = {names(found)[i]: int(one[0, 0, 0]) for i, one in enumerate(found.inputs)}
    assert values == {wnids[0]: 0, wnids[2]: 2, wnids[10]: 10}
    assert (found.label_set, len(found.classes)) == ("imagenet", 11)
    listed.write_text("\n".join(wnids[:5]), encoding="utf-8")
    with pytest.raises(ArtefactError, match="must have folders below 5"):
        load("imagenetv2", tmp_path)


def test_wordnet_ids_come_from_imagenet_itself(tmp_path):
    imagenetv2(tmp_path, numbers=(1,))
    for wnid in ("n02", "n01"):
        image(tmp_path / "imagenet" / "val" / wnid / "x.png")
    assert names(load("imagenetv2", tmp_path)) == ["n02"]


def imagenet(root, wnids):
    for wnid in wnids:
        for i in range(2):
            image(root / "imagenet" / "train" / wnid / f"{i}.png")
        image(root / "imagenet" / "val" / wnid / "v.png")


def test_the_parts_of_the_paper_are_complete(tmp_path):
    name = "imagenet-21k-p-winter21"
    easy, hard = (published(name, level).unknown for level in ("Easy", "Hard"))
    wnids = published("imagenet-21k-p", "Easy").known[:3]
    imagenet(tmp_path, wnids)
    imagenetv2(tmp_path, numbers=(0, 1, 2))
    for wnid in (*easy[:2], *hard[:4]):
        for i in range(10):
            image(tmp_path / "imagenet-21k-p/imagenet21k_val" / wnid / f"{i}.png", i)
    image(tmp_path / "ninco/NINCO/NINCO_OOD_classes/a/1.png")
    image(tmp_path / "inaturalist/iNaturalist/images/1.png")
    parts = reproduce.imagenet_parts(tmp_path)
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 6,
        "validation": 3,
        "test": 3,
        "surrogate/21K-P Hard": 8,  # 20 % of ten images of each of four classes
        "unknown/21K-P Hard": 40,
        "unknown/21K-P Easy": 20,
        "unknown/NINCO": 1,
        "unknown/iNaturalist": 1,
    }
    chosen = parts["surrogate/21K-P Hard"]
    assert sorted(names(chosen)) == sorted(hard[:4] * 2)
    assert set(chosen.inputs.paths) <= set(parts["unknown/21K-P Hard"].inputs.paths)
    again = reproduce.imagenet_parts(tmp_path)["surrogate/21K-P Hard"]
    assert again.inputs.paths == chosen.inputs.paths
    # Known classes have the labels of ImageNet in every part.
    assert parts["validation"].classes == parts["test"].classes == tuple(sorted(wnids))


def test_every_unknown_set_of_the_paper_has_a_name():
    assert {
        *("inaturalist", "ninco", "openimage-o", "places-mos", "sun-mos", "dtd"),
        *("imagenet-21k-p", "imagenetv2", "imagenet", "imagenet-o"),
    } <= set(datasets.names())
