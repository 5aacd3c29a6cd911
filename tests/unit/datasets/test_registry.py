"""The one door: names, missing files, the hub."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from openset import MissingExtraError, datasets
from openset.datasets import REGISTRY
from openset.datasets._place import default_root

PAPERS = {
    "mnist",
    "svhn",
    "cifar10",
    "cifar100",
    "omniglot",
    "fgvc-aircraft",
    "stanford-cars",
    "dtd",
    "places365",
    "sun397",
    "imagenet",
    "imagenette",
    "tinyimagenet",
    "cub",
    "digits",
    "clinc150",
    "banking77",
    "letter",
}


def test_every_data_set_of_the_papers_has_a_name():
    assert set(datasets.names()) >= PAPERS


@pytest.mark.parametrize("name", REGISTRY)
def test_every_entry_can_be_read_from_somewhere(name):
    source = REGISTRY[name]
    assert source.read is not None or source.packaged is not None
    assert source.about
    assert 1 < source.n_classes < source.n_samples
    assert source.how.split()[0] in {"always", "download", "bring"}
    for file in source.files:
        kind, _, digest = file.digest.partition(":")
        assert (kind, len(digest)) in {("md5", 32), ("sha256", 64)}
        assert all(url.startswith("http") for url in file.urls)


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"digits"}))
def test_every_missing_data_set_says_which_file_to_put_where(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"datasets\.load: ") as error:
        datasets.load(name, tmp_path, offline=True)
    assert str(tmp_path) in str(error.value)
    assert "Put\n" in str(error.value) or "into\n" in str(error.value)


def test_the_environment_switches_downloads_off(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="OPENSET_OFFLINE=1"):
        datasets.load("cifar100", tmp_path)


def test_the_root_is_the_environments_or_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "openset"
    monkeypatch.setenv("OPENSET_DATA", str(tmp_path / "data"))
    assert default_root() == tmp_path / "data"
    assert datasets.available() == ["digits"]


def test_official_files_win_over_a_packaged_copy(tmp_path, monkeypatch):
    (tmp_path / "mnist.npz.xz").write_bytes(b"")
    for file in REGISTRY["mnist"].files:
        (tmp_path / file.name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz"):
        datasets.load("mnist", tmp_path, offline=True, verify=False)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("cifar11", ValueError, "name must be one of 'digits', 'mnist'.*got 'cifar11'"),
        (3, TypeError, "name must be a string, got 3"),
        ("none.npz", FileNotFoundError, "no such file"),
    ],
)
def test_unknown_names_are_explained(name, error, message):
    with pytest.raises(error, match=message):
        datasets.load(name)


def test_options_are_for_the_hub_only():
    with pytest.raises(TypeError, match="no option labels for 'digits'"):
        datasets.load("digits", labels="y")


def test_the_hub_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'openset\[hub\]'"):
        datasets.load("hf:owner/name")


# --- a stand-in for the hub's library, with the parts of its interface we use ---------


class ClassLabel:
    """A column of classes."""

    def __init__(self, names):
        self.names = names


class Value:
    """A column of plain values."""

    def __init__(self, dtype):
        self.dtype = dtype


class Image:
    """A column of images."""


class Picture:
    """A decoded image."""

    def __init__(self, value):
        self.value = value

    def convert(self, mode):
        """Return the pixels in the mode asked for."""
        assert mode == "RGB"
        return np.full((2, 2, 3), self.value, np.uint8)


class Split:
    """One split: columns of equal length."""

    def __init__(self, features, columns):
        self.features, self.columns = features, columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key]
        return {name: column[key] for name, column in self.columns.items()}


@pytest.fixture
def hub(monkeypatch):
    calls = []
    library = SimpleNamespace(splits={}, calls=calls)

    def load_dataset(path, *, download_config):
        calls.append((path, download_config))
        return library.splits

    library.load_dataset = load_dataset
    library.DownloadConfig = lambda **options: options
    monkeypatch.setitem(sys.modules, "datasets", library)
    return library


def test_texts_of_the_hub_become_a_data_set(hub):
    features = {"text": Value("string"), "label": ClassLabel(["a", "b"])}
    hub.splits = {
        "train": Split(features, {"text": ["x", "y"], "label": [0, 1]}),
        "test": Split(features, {"text": ["z"], "label": [1]}),
        "extra": Split(features, {"text": ["w"], "label": [1]}),
    }
    found = datasets.load("hf:owner/texts", offline=True)
    assert repr(found) == (
        "Dataset(owner/texts, text, n=3, classes=2, train=2, test=1)"
    )
    assert found.inputs.tolist() == ["x", "y", "z"]
    assert hub.calls == [("owner/texts", {"local_files_only": True})]


def test_images_of_the_hub_stay_lazy(hub):
    features = {"img": Image(), "label": ClassLabel(["a", "b"])}
    splits = {
        name: Split(features, {"img": [Picture(i) for i in values], "label": [0, 1]})
        for name, values in (("train", (1, 2)), ("val", (3, 4)))
    }
    hub.splits = splits
    found = datasets.load("hf:owner/images")
    assert found.kind == "image"
    validation = found.part("validation")
    assert [int(validation.inputs[i].max()) for i in range(2)] == [3, 4]
    hub.splits = {"train": splits["train"]}
    train = datasets.load("hf:owner/images").part("train").take([1])
    assert int(train.inputs[0].max()) == 2


def test_columns_that_cannot_be_guessed_are_asked_for(hub):
    features = {
        "question": Value("string"),
        "answer": Value("string"),
        "label": ClassLabel(["a"]),
    }
    columns = {"question": ["q"], "answer": ["r"], "label": [0]}
    hub.splits = {"train": Split(features, columns)}
    with pytest.raises(ValueError, match=r"\['question', 'answer'\] among.*inputs='…'"):
        datasets.load("hf:owner/qa")
    found = datasets.load("hf:owner/qa", inputs="answer")
    assert found.inputs.tolist() == ["r"]
    with pytest.raises(ValueError, match="column of owner/qa must be one of"):
        datasets.load("hf:owner/qa", inputs="reply")
    hub.splits = {"other": hub.splits["train"]}
    with pytest.raises(ValueError, match="must have a train, validation or test split"):
        datasets.load("hf:owner/qa")
