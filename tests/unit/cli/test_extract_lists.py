"""`openset extract --list`: images of a list, in the layout of OpenOOD."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs
from openset._types import ArtefactError
from openset.bench import named
from openset.cli import app
from openset.cli._extract_lists import check_labels
from openset.datasets import image_lists
from openset.results import Results
from openset.train import Trained
from tests.train.tiny import fit_tiny, image_data

pictures = pytest.importorskip("PIL.Image", reason="reads images")

N_CLASSES = 10


def run(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def save(folder, pixels, names):
    """Write images under these names."""
    for name, one in zip(names, pixels, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pictures.fromarray(one).save(folder / name)


@pytest.fixture(scope="module")
def data():
    return image_data(n=88, side=16, n_classes=N_CLASSES + 1)


@pytest.fixture(scope="module")
def network(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists") / "run"
    fit_tiny(data, network="osrci", side=16, epochs=1, out=folder)
    return folder


@pytest.fixture(scope="module")
def openood(data, tmp_path_factory):
    """Return a folder with six images of each data set, and lists of four of them."""
    folder = tmp_path_factory.mktemp("openood")
    layout = {
        "test_cifar10": "cifar10/test/class/{:04}.png",
        "train_cifar10": "cifar10/train/class/{:04}.png",
        "test_cifar100": "cifar100/test/apple/{:04}.png",
        "test_tin": "tin/val/images/val_{}.JPEG",
        "test_mnist": "mnist/test/{}.png",
        "test_svhn": "svhn/test/{}.png",
        "test_texture": "texture/banded/banded_{:04}.jpg",
        "test_places365": "places365/airfield/Places365_val_{:08}.jpg",
    }
    (folder / "lists").mkdir()
    for i, (name, path) in enumerate(layout.items()):
        n = 30 if "cifar10" in name else 6
        names = [path.format(number) for number in range(n)]
        save(folder / "images_classic", data.inputs[i : i + n], names)
        is_known = name.endswith("_cifar10")
        labels = [number % N_CLASSES if is_known else -1 for number in range(n)]
        chosen = range(n) if is_known else (4, 0, 3, 1)
        lines = [f"{names[number]} {labels[number]}\n" for number in chosen]
        (folder / "lists" / f"{name}.txt").write_text("".join(lines), "utf-8")
    return folder


def test_labels_and_order_are_those_of_the_list(network, data, tmp_path):
    names = ["a b/0.png", "a b/1.png", "deep/er/2.png", "3.png"]
    save(tmp_path / "images", data.inputs[:4], names)
    # A byte order mark, line ends of Windows, a tab, a space in a name, a label of -2.
    text = "\ufeff3.png 7\r\n\r\ndeep/er/2.png\t-2\r\na b/1.png  0\r\n"
    (tmp_path / "test_some.txt").write_bytes(text.encode())
    out = tmp_path / "some.npz"
    listed = ["--list", tmp_path / "test_some.txt"]
    shown = run("extract", network, tmp_path / "images", *listed, "--out", out)
    outputs = Outputs.load(out)
    assert outputs.labels.tolist() == [7, -1, 0]
    assert outputs.ids.tolist() == ["3.png", "deep/er/2.png", "a b/1.png"]
    assert outputs.groups.tolist() == ["class 7", "test_some", "class 0"]
    expected = Trained.load(network).apply(data.inputs[[3, 2, 1]])
    np.testing.assert_array_equal(outputs.logits, expected.logits)
    right = expected.logits[[0, 2]].argmax(axis=1) == [7, 0]
    assert f"2 samples of known classes, accuracy {right.mean():.4f}" in shown


def test_unknown_goes_before_the_labels_of_the_list(network, openood, tmp_path):
    text = "tin/val/images/val_0.JPEG 199\ntin/val/images/val_1.JPEG 0\n"
    (tmp_path / "list.txt").write_text(text, "utf-8")
    call = ["extract", network, openood / "images_classic", "--out", tmp_path / "o.npz"]
    call += ["--list", tmp_path / "list.txt"]
    rule = r"--list must be .* below 10, .* got 1 larger .* 199 for tin/.*val_0.*--unkn"
    with pytest.raises(ValueError, match=rule):
        run(*call)
    run(*call, "--unknown")
    assert Outputs.load(tmp_path / "o.npz").labels.tolist() == [-1, -1]


def test_missing_images_are_counted_before_the_network_is_loaded(openood, tmp_path):
    lines = [f"tin/val/images/val_{i}.JPEG -1" for i in (0, 8, 9)]
    (tmp_path / "list.txt").write_text("\n".join(lines), "utf-8")
    rule = (
        r"^openset extract: DATA must be a folder with the 3 images of .*list.txt, got "
        r".*images_classic without 2 of them, such as tin/val/images/val_8.JPEG$"
    )
    with pytest.raises(FileNotFoundError, match=rule):
        run("extract", "nowhere:x", openood / "images_classic", "--list",
            tmp_path / "list.txt")  # fmt: skip


@pytest.mark.parametrize("given", [".", "images_classic/tin", "images_classic/tin/val"])
def test_the_folder_above_or_below_is_named(openood, given):
    listed = openood / "lists" / "test_tin.txt"
    rule = rf"without any of them.*Give {openood / 'images_classic'}, which has them"
    with pytest.raises(FileNotFoundError, match=rule):
        run("extract", "nowhere:x", openood / given, "--list", listed)


def test_a_folder_that_has_nothing_of_it_is_told_what_to_look_for(openood, tmp_path):
    listed = openood / "lists" / "test_tin.txt"
    with pytest.raises(FileNotFoundError, match="give the one with tin in it"):
        run("extract", "nowhere:x", tmp_path, "--list", listed)
    (tmp_path / "data.npy").touch()
    with pytest.raises(
        FileNotFoundError, match="DATA must be a folder with the 4 images"
    ):
        run("extract", "nowhere:x", tmp_path / "data.npy", "--list", listed)


@pytest.mark.parametrize(
    "line",
    ["1.png", "1.png x", "1.png --2", "1.png 1,2", "1.png 1.0", "7", "1.png 9e9"],
)
def test_a_line_that_is_no_path_and_label_is_named(tmp_path, line):
    (tmp_path / "list.txt").write_text(f"0.png 1\n\n{line}\n", "utf-8")
    rule = rf"--list must be lines of a path.*got '{line}' in line 3 of .*list.txt"
    with pytest.raises(ArtefactError, match=rule):
        run("extract", "nowhere:x", tmp_path, "--list", tmp_path / "list.txt")


def test_what_is_no_list_is_said_so(tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n", "utf-8")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    with pytest.raises(ArtefactError, match="which has none"):
        image_lists.read(tmp_path / "empty.txt")
    with pytest.raises(ArtefactError, match="is not a text file"):
        image_lists.read(tmp_path / "image.png")
    with pytest.raises(FileNotFoundError, match=r"extract: no such list: .*other.txt"):
        run("extract", "nowhere:x", tmp_path, "--list", tmp_path / "other.txt")


def test_a_part_is_refused(network, openood):
    listed = ["--list", openood / "lists" / "test_tin.txt", "--part", "test"]
    with pytest.raises(ValueError, match="--part must be left out"):
        run("extract", network, openood / "images_classic", *listed)


def test_a_network_without_names_is_run_on_one_image_for_its_classes(openood):
    asked = []

    def apply(inputs, invalid):
        asked.append((len(inputs), invalid))
        return Outputs(logits=np.zeros((1, 3)))

    nameless = SimpleNamespace(classes=(), apply=apply)
    listed = image_lists.read(openood / "lists" / "test_cifar10.txt")
    images = listed.files(openood / "images_classic")
    with pytest.raises(ValueError, match=r"below 3, .* got 21 larger ones"):
        check_labels(listed, images, nameless)
    unknown = image_lists.read(openood / "lists" / "test_tin.txt")
    check_labels(unknown, unknown.files(openood / "images_classic"), nameless)
    assert asked == [(1, "keep")]  # which may be damaged


def test_openood_from_its_lists_to_the_table(network, openood, tmp_path):
    sets = {
        "train": "train_cifar10",
        "known": "test_cifar10",
        "near/cifar100": "test_cifar100",
        "near/tin": "test_tin",
        "far/mnist": "test_mnist",
        "far/svhn": "test_svhn",
        "far/texture": "test_texture",
        "far/places365": "test_places365",
    }
    assert set(sets) == {"train", *named.load("openood:cifar10").files()}
    outputs = tmp_path / "outputs"
    for name, listed in sets.items():
        out = outputs / f"{name}.npz"
        out.parent.mkdir(parents=True, exist_ok=True)
        file = openood / "lists" / f"{listed}.txt"
        run(
            "extract", network, openood / "images_classic", "--list", file, "--out", out
        )
    tin = Outputs.load(outputs / "near" / "tin.npz")
    assert tin.ids.tolist() == [f"tin/val/images/val_{i}.JPEG" for i in (4, 0, 3, 1)]
    call = ["bench", "openood:cifar10", "--outputs", outputs, "--out", tmp_path / "run"]
    run(*call, "-d", "msp", "-d", "knn:k=3")
    results = Results.load(tmp_path / "run" / "results.csv")
    assert {row.protocol for row in results} >= {f"openood:cifar10/{n}" for n in sets
                                                  if "/" in n}  # fmt: skip


def test_a_list_of_a_benchmark_by_name(network, data, tmp_path):
    paths = named.load("openood:cifar10").images("validation/tin")
    save(tmp_path / "tin", data.inputs[:1], paths[:1])
    for path in paths[1:]:
        os.link(tmp_path / "tin" / paths[0], tmp_path / "tin" / path)
    call = ["extract", network, tmp_path / "tin", "--out", tmp_path / "o.npz"]
    run(*call, "--list", "openood:cifar10/validation/tin")
    outputs = Outputs.load(tmp_path / "o.npz")
    assert outputs.ids.tolist() == list(paths)
    assert (outputs.labels == -1).all()
    assert set(outputs.groups.tolist()) == {"tin"}
    with pytest.raises(ValueError, match=r"extract: --list must be .*'far/tin'"):
        run(*call, "--list", "openood:cifar10/far/tin")
    with pytest.raises(ValueError, match="openood:imagenet has no lists of images"):
        run(*call, "--list", "openood:imagenet/near/ninco")
    with pytest.raises(FileNotFoundError, match="no such list: openood:cifra/near/tin"):
        run(*call, "--list", "openood:cifra/near/tin")
