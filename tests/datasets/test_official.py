"""Official formats: small real files, written here, read by our readers."""

import gzip
import io
import shutil
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

from openset import ArtefactError, datasets

Image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")
RNG = np.random.default_rng(0)


def pixels(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def load(name, root):
    return datasets.load(name, root, offline=True)


def write_image(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def values(dataset):
    """Return the class and the first value of every image."""
    rows = zip(dataset.labels, dataset.inputs, strict=True)
    return [(dataset.classes[y], int(np.ravel(x)[0])) for y, x in rows]


# --- MNIST ---------------------------------------------------------------------------


def idx(array):
    head = b"\0\0\x08" + bytes([array.ndim])
    return head + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    arrays = {
        "train-images-idx3-ubyte.gz": pixels(5, 28, 28),
        "train-labels-idx1-ubyte.gz": np.array([3, 1, 4, 1, 5], np.uint8),
        "t10k-images-idx3-ubyte.gz": pixels(2, 28, 28),
        "t10k-labels-idx1-ubyte.gz": np.array([9, 0], np.uint8),
    }
    (tmp_path / "mnist").mkdir()
    for name, array in arrays.items():
        (tmp_path / "mnist" / name).write_bytes(gzip.compress(idx(array)))
    return tmp_path, list(arrays.values())


def test_mnist_reads_its_idx_files(mnist):
    root, (train_x, _, test_x, _) = mnist
    found = load("mnist", root)
    assert found.labels.tolist() == [3, 1, 4, 1, 5, 9, 0]
    assert np.array_equal(found.part("train").inputs, train_x)
    assert np.array_equal(found.part("test").inputs, test_x)

    found.take(np.arange(3)).save(root / "mnist.npz")  # a saved copy wins
    again = load("mnist", root)
    assert (len(again), again.name, again.classes) == (3, "mnist", found.classes)


def test_a_damaged_idx_file_is_named(mnist):
    root, _ = mnist
    path = root / "mnist" / "train-images-idx3-ubyte.gz"
    raw = path.read_bytes()
    for damaged in (
        raw[: len(raw) // 2],
        b"not gzip",
        gzip.compress(b"\0\0\x0d\x01"),
        gzip.compress(gzip.decompress(raw) + b"0"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ArtefactError, match=rf"{path.name} is damaged"):
            load("mnist", root)


# --- CIFAR ---------------------------------------------------------------------------


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"cifar-binary/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def cifar_batch(images, *labels):
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.column_stack([*labels, planes]).astype(np.uint8).tobytes()


def test_cifar10_reads_the_binary_version(tmp_path):
    images, names = pixels(6, 4, 32, 32, 3), [f"class{i}" for i in range(10)]
    files = {
        f"data_batch_{i + 1}.bin": cifar_batch(images[i], [i, 0, 9, 1])
        for i in range(5)
    }
    files["test_batch.bin"] = cifar_batch(images[5], [2, 2, 2, 2])
    files["batches.meta.txt"] = "\n".join([*names, "", ""]).encode()
    tar(tmp_path / "cifar-10-binary.tar.gz", files)
    found = load("cifar10", tmp_path)
    assert found.classes == tuple(names)
    assert np.array_equal(found.part("train").inputs, images[:5].reshape(-1, 32, 32, 3))
    assert found.part("train").labels.reshape(5, 4)[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(found.part("test").inputs, images[5])


def test_cifar100_takes_the_fine_label(tmp_path):
    images = pixels(3, 32, 32, 3)
    files = {
        "train.bin": cifar_batch(images[:2], [19, 0], [99, 4]),
        "test.bin": cifar_batch(images[2:], [7], [50]),
        "fine_label_names.txt": "\n".join(f"class{i}" for i in range(100)).encode(),
    }
    path = tmp_path / "cifar-100-binary.tar.gz"

    tar(path, files)
    found = load("cifar100", tmp_path)
    assert found.labels.tolist() == [99, 4, 50]
    assert np.array_equal(found.inputs, images)
    content = path.read_bytes()
    for content_of_test in ({}, {"test.bin": b"12345"}, None):
        if content_of_test is None:
            path.write_bytes(content[:2000])
        else:
            tar(path, {n: files[n] for n in files if n != "test.bin"} | content_of_test)
        with pytest.raises(ArtefactError, match=f"{path.name} is damaged"):
            load("cifar100", tmp_path)


# --- SVHN ----------------------------------------------------------------------------


def test_svhn_reads_mat_files_and_turns_ten_into_zero(tmp_path):
    train, test = pixels(3, 32, 32, 3), pixels(2, 32, 32, 3)
    for name, x, y in (("train", train, [1, 10, 9]), ("test", test, [10, 5])):
        content = {"X": x.transpose(1, 2, 3, 0), "y": np.array(y, np.uint8)[:, None]}
        savemat(tmp_path / f"{name}_32x32.mat", content)
    found = load("svhn", tmp_path)
    assert found.labels.tolist() == [1, 0, 9, 0, 5]
    assert np.array_equal(found.inputs, np.concatenate([train, test]))
    content = {"X": pixels(32, 32, 3, 2), "y": np.array([[1]])}
    savemat(tmp_path / "train_32x32.mat", content)
    with pytest.raises(ArtefactError, match=r"svhn is damaged .*same length, got 2, 1"):
        load("svhn", tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(b"no mat file" * 100)
    with pytest.raises(ArtefactError, match=r"train_32x32.mat is damaged"):
        load("svhn", tmp_path)


# --- folders of images ---------------------------------------------------------------


def test_tinyimagenet_sorts_the_flat_validation_images_by_its_list(tmp_path):
    top = tmp_path / "tinyimagenet" / "tiny-imagenet-200"
    for wnid in ("n02", "n01"):
        for i in range(2):
            write_image(top / f"train/{wnid}/images/{wnid}_{i}.JPEG", pixels(64, 64, 3))
    test = pixels(64, 64, 3)
    write_image(top / "val/images/val_0.png", test)
    rows = "val_0.png\tn02\t0\t32\t44\t62\n"
    write_text(top / "val/val_annotations.txt", rows)
    found = load("tinyimagenet", tmp_path)
    assert found.classes == ("n01", "n02")
    assert found.part("train").labels.tolist() == [0, 0, 1, 1]
    assert found.part("test").labels.tolist() == [1]
    assert np.array_equal(found.part("test").inputs[0], test)
    for text, words in (
        (rows.replace("n02", "n09"), "in its test must be .* got 'n09'"),
        ("val_0.png\n", r"val_annotations.txt is damaged"),
    ):
        write_text(top / "val/val_annotations.txt", text)
        with pytest.raises(ArtefactError, match=words):
            load("tinyimagenet", tmp_path)


def test_cub_reads_its_official_parts(tmp_path):
    top = tmp_path / "CUB_200_2011"
    names = {1: "001.Albatross", 2: "002.Auklet"}
    rows = [(1, 1, 1), (2, 2, 0), (3, 2, 1)]  # image, class, is training image
    for image, c, _ in rows:
        write_image(top / f"images/{names[c]}/{image}.jpg", pixels(9, 7, 3))
    tables = {
        "images": [f"{i} {names[c]}/{i}.jpg" for i, c, _ in rows],
        "image_class_labels": [f"{i} {c}" for i, c, _ in rows],
        "train_test_split": [f"{i} {t}" for i, _, t in rows],
        "classes": [f"{i} {n}" for i, n in names.items()],
    }
    for name, lines in tables.items():
        write_text(top / f"{name}.txt", "\n".join(lines))
    found = load("cub", tmp_path)
    assert found.part("train").labels.tolist() == [0, 1]
    assert found.part("test").labels.tolist() == [1]
    assert found.inputs[1].shape == (9, 7, 3)
    table = top / "train_test_split.txt"
    for text, damaged in (("1 1\n", "CUB_200_2011"), ("1\n", table.name)):
        write_text(table, text)
        with pytest.raises(ArtefactError, match=f"{damaged} is damaged"):
            load("cub", tmp_path)
    table.unlink()
    with pytest.raises(FileNotFoundError, match=table.name):
        load("cub", tmp_path)


def test_aircraft_numbers_variants_by_name_not_by_the_official_list(tmp_path):
    top = tmp_path / "fgvc-aircraft-2013b" / "data"
    write_text(top / "variants.txt", "DC-3\n737-200\nMD-11 F\n")
    write_text(top / "images_variant_trainval.txt", "0001 DC-3\n0002 737-200\n")
    write_text(top / "images_variant_test.txt", "0003 MD-11 F\n")
    found = load("fgvc-aircraft", tmp_path)
    assert found.classes == ("737-200", "DC-3", "MD-11 F")
    assert found.labels.tolist() == [1, 0, 2]
    assert found.inputs.paths[2] == str(top / "images" / "0003.jpg")
    write_text(top / "images_variant_test.txt", "0003 Zeppelin\n")
    with pytest.raises(ArtefactError, match="'Zeppelin'"):
        load("fgvc-aircraft", tmp_path)


def annotations(path, rows):
    kinds = [("class", "O"), ("fname", "O")]
    table = np.array([(c, f) for f, c in rows], dtype=kinds)
    savemat(path, {"annotations": table[None]})


def test_stanford_cars_reads_the_devkit_and_the_later_labels(tmp_path):
    with pytest.raises(FileNotFoundError, match="no direct download") as error:
        datasets.load("stanford-cars", tmp_path, offline=False)
    assert "cars_train.tgz" in str(error.value)
    top = tmp_path / "stanford-cars"
    for part, n in (("train", 2), ("test", 1)):
        for i in range(n):
            write_image(top / f"cars_{part}/{i + 1:05d}.jpg", pixels(5, 5, 3))
    (top / "devkit").mkdir()
    names = np.array([["AM General Hummer", "Acura RL"]], dtype=object)
    savemat(top / "devkit/cars_meta.mat", {"class_names": names})
    rows = [("00001.jpg", 2), ("00002.jpg", 1)]
    annotations(top / "devkit/cars_train_annos.mat", rows)
    annotations(top / "cars_test_annos_withlabels.mat", rows[:1])
    found = load("stanford-cars", tmp_path)
    assert found.classes == ("AM General Hummer", "Acura RL")
    assert found.labels.tolist() == [1, 0, 1]
    assert found.inputs[2].shape == (5, 5, 3)


def test_omniglot_folders_are_read_with_bright_ink(tmp_path):
    drawing = np.full((105, 105), 255, np.uint8)
    drawing[50, 50] = 0
    for part, alphabet in (("background", "Greek"), ("evaluation", "Keble")):
        for character in ("character01", "character02"):
            path = tmp_path / f"omniglot/images_{part}/{alphabet}/{character}/1_01.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(drawing).convert("1").save(path)
    found = load("omniglot", tmp_path)
    assert found.classes[0] == "Greek/character01"
    assert found.part("test").labels.tolist() == [2, 3]
    assert found.inputs[0][50, 50] == 255
    assert found.inputs[0].sum() == 255


# --- to test ImageNet classifiers with ------------------------------------------------


def flat(value):
    return np.full((8, 8, 3), value, np.uint8)


# What is read from a folder, and is not of the classes of ImageNet.
FOLDERS = {
    name: datasets.info(name).folders[0]
    for name in datasets.names()
    if datasets.info(name).how == "by hand" and not datasets.info(name).files
    if name not in {"imagenet", "imagenetv2"}
}


@pytest.mark.parametrize("name", FOLDERS)
def test_sets_of_unknowns_are_folders_of_images_or_of_classes(tmp_path, name):
    assert name not in datasets.available(tmp_path)
    folder = tmp_path / name / FOLDERS[name]
    for group in ("b", "a"):
        write_image(folder / group / "1.png", flat(7))
    assert values(load(name, tmp_path).part("test")) == [("a", 7), ("b", 7)]
    assert name in datasets.available(tmp_path)
    shutil.rmtree(folder)
    for i in range(3):
        write_image(folder / f"{i}.png", flat(i))
    found = load(name, tmp_path)
    assert [value for _, value in values(found)] == [0, 1, 2]
    assert (found.name, len(found.classes), len(found.part("test"))) == (name, 1, 3)


def imagenet(root, wnids):
    for wnid in wnids:
        for i in range(2):
            write_image(root / "imagenet" / "train" / wnid / f"{i}.png", flat(1))
        write_image(root / "imagenet" / "val" / wnid / "v.png", flat(2))


def imagenetv2(root, *numbers):
    top = root / "imagenetv2" / "imagenetv2-matched-frequency-format-val"
    for number in numbers:
        write_image(top / str(number) / "a.png", flat(number))


def test_imagenet_has_val_as_test_part(tmp_path):
    imagenet(tmp_path, ["n02", "n01"])
    found = load("imagenet", tmp_path)
    assert values(found.part("test")) == [("n01", 2), ("n02", 2)]
    assert found.part("train").labels.tolist() == [0, 0, 1, 1]
    (tmp_path / "imagenet" / "train").rename(tmp_path / "elsewhere")
    assert list(load("imagenet", tmp_path).parts) == ["test"]


def test_numbers_of_imagenetv2_are_ranks_of_wordnet_ids(tmp_path):
    imagenetv2(tmp_path, 0, 2, 10)
    with pytest.raises(FileNotFoundError, match="'imagenet' is not under"):
        load("imagenetv2", tmp_path)
    wnids = [f"n{i:08d}" for i in range(11)]
    imagenet(tmp_path, wnids)
    found = load("imagenetv2", tmp_path)
    # 10 is the eleventh class, not the one after 1 as folders are sorted.
    assert set(values(found)) == {(wnids[i], i) for i in (0, 2, 10)}
    assert (found.label_set, len(found.classes)) == ("imagenet", 11)
    imagenetv2(tmp_path, 11)
    with pytest.raises(ArtefactError, match="images of its 11 classes, got '11'"):
        load("imagenetv2", tmp_path)
