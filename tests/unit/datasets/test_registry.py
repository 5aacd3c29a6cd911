"""The one door: names, missing files, the hub."""

import sys

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
