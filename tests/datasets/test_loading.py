"""The one door: names, missing files, options."""

import importlib.util
import sys
from pathlib import Path

import pytest

from openset import MissingExtraError, datasets

PAPERS = {
    *("mnist", "svhn", "cifar10", "cifar100", "omniglot", "fgvc-aircraft", "cub"),
    *("stanford-cars", "imagenet", "tinyimagenet", "digits", "clinc150", "letter"),
    *("inaturalist", "ninco", "openimage-o", "places-mos", "sun-mos", "dtd"),
    *("imagenet-21k-p", "imagenetv2", "imagenet-o", "banking77"),
}


def test_every_data_set_of_the_papers_has_a_name():
    assert set(datasets.names()) >= PAPERS


@pytest.mark.parametrize("name", datasets.names())
def test_every_data_set_is_there_or_says_which_file_to_put_where(name, tmp_path):
    info, text = datasets.info(name), datasets.describe(name, tmp_path)
    assert info.about
    assert info.n_samples or name == "imagenet-21k-p"
    assert name == "digits" or f"\nfrom {info.source}" in text
    if info.how == "always there":
        found = datasets.load(name, tmp_path, offline=True)
        sizes = (len(found), len(found.classes), found.kind)
        assert sizes == (info.n_samples, info.n_classes, info.kind)
        return
    assert info.how in {"download", "by hand"}
    assert name not in datasets.available(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"datasets\.load: ") as error:
        datasets.load(name, tmp_path, offline=True)
    for file in info.files:
        assert f"{file.name}  ({file.digest})" in text
        assert len(file.digest) == len("md5:") + 32
    assert str(tmp_path / name) in str(error.value)
    assert str(tmp_path / f"{name}.npz") in text


def test_the_environment_switches_downloads_off(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="OPENSET_OFFLINE=1"):
        datasets.load("cifar100", tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("cifar11", {}, ValueError, "name must be one of .*'digits'.*got 'cifar11'"),
        ("digit", {}, ValueError, r"no such file or folder. Did you mean 'digits'\?"),
        (3, {}, TypeError, "name must be a string, got 3"),
        ("none.npz", {}, FileNotFoundError, "no such file"),
        ("none.csv", {}, FileNotFoundError, "none.csv"),
        ("digits", {"labels": "y"}, TypeError, "of hf:.*got labels for 'digits'"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name, options, error, message):
    with pytest.raises(error, match=message):
        datasets.load(name, **options)


def test_the_hub_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r'pip install "openset\[hub\]"'):
        datasets.load("hf:owner/name")


@pytest.mark.parametrize("name", ["mnist", "svhn", "omniglot", "fgvc-aircraft"])
def test_checksums_and_addresses_are_those_of_torchvision(name):
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        pytest.skip("needs the sources of torchvision (extra vision)")
    module = Path(spec.origin).parent / "datasets" / f"{name.replace('-', '_')}.py"
    text = module.read_text("utf-8")
    for file in datasets.info(name).files:
        assert name == "fgvc-aircraft" or f'"{file.digest[4:]}"' in text
        assert file.url.rpartition("/")[0] in text
