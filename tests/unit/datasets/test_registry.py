"""The one door: names, missing files, the hub."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from openset import MissingExtraError, datasets
from openset.datasets._catalogue import CATALOGUE
from openset.datasets._checksums import FILES
from openset.datasets._dataset_folder import default_root

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


def test_every_line_of_the_checksums_belongs_to_an_entry():
    entries = [CATALOGUE[name] for name in CATALOGUE.built_in()]
    used = {file for one in entries for file in one.files}
    used |= {f for one in entries if one.exact_copy for f in one.exact_copy.files}
    used |= {one.compact_copy.file for one in entries if one.compact_copy}
    assert {file for files in FILES.values() for file in files} == used


@pytest.mark.parametrize("name", CATALOGUE.built_in())
def test_every_entry_can_be_read_from_somewhere(name):
    source = CATALOGUE[name]
    assert source.read is not None or source.compact_copy is not None
    assert source.about
    if source.n_classes is not None:
        assert 1 < source.n_classes < source.n_samples
    else:  # how its images are listed decides
        assert source.how.split()[0] == "needs"
    assert source.how.split()[0] in {"always", "download", "needs"}
    for file in source.files:
        kind, _, digest = file.digest.partition(":")
        assert (kind, len(digest)) in {("md5", 32), ("sha256", 64)}
        assert all(url.startswith("http") for url in file.urls)


@pytest.mark.parametrize(
    "name", [n for n in CATALOGUE.built_in() if CATALOGUE[n].how != "always there"]
)
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
    always = [n for n in CATALOGUE.built_in() if CATALOGUE[n].how == "always there"]
    assert datasets.available() == always
    assert "digits" in always


def test_official_files_win_over_a_packaged_copy(tmp_path, monkeypatch):
    (tmp_path / "mnist.npz.xz").write_bytes(b"")
    for file in CATALOGUE["mnist"].files:
        (tmp_path / file.name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz"):
        datasets.load("mnist", tmp_path, offline=True, verify=False)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("cifar11", ValueError, "name must be one of .*'digits'.*got 'cifar11'"),
        (
            "digit",
            ValueError,
            "got 'digit', and there is no such file or folder. Did you mean 'digits'?",
        ),
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
    with pytest.raises(MissingExtraError, match=r'pip install "openset\[hub\]"'):
        datasets.load("hf:owner/name")


# --- what is said of files and sizes that no test can download ------------------------

LOADERS = {
    "mnist": "mnist",
    "svhn": "svhn",
    "omniglot": "omniglot",
    "dtd": "dtd",
    "places365": "places365",
    "sun397": "sun397",
    "imagenette": "imagenette",
}


@pytest.fixture(scope="module")
def torchvision_sources():
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        pytest.skip("needs the sources of torchvision (extra vision)")
    return Path(spec.origin).parent / "datasets"


@pytest.mark.parametrize("name", LOADERS)
def test_checksums_are_those_of_torchvision(name, torchvision_sources):
    text = (torchvision_sources / f"{LOADERS[name]}.py").read_text("utf-8")
    for file in CATALOGUE[name].files:
        assert f'"{file.digest.removeprefix("md5:")}"' in text
        assert any(url.rpartition("/")[0] in text for url in file.urls)


def test_the_aircraft_archive_is_where_torchvision_looks_for_it(torchvision_sources):
    text = (torchvision_sources / "fgvc_aircraft.py").read_text("utf-8")
    (file,) = CATALOGUE["fgvc-aircraft"].files
    assert file.urls[0] in text


def test_imagenet_checksums_are_those_of_torchvision(torchvision_sources, tmp_path):
    text = (torchvision_sources / "imagenet.py").read_text("utf-8")
    with pytest.raises(FileNotFoundError) as error:
        datasets.load("imagenet", tmp_path)
    said = re.findall(r"md5:([0-9a-f]{32})", str(error.value))
    assert len(said) == 2
    assert all(f'"{digest}"' in text for digest in said)


def test_the_table_of_large_sets_adds_up_to_the_registry():
    page = (Path(__file__).parents[3] / "docs" / "protocols.md").read_text("utf-8")
    table = page.partition("### Where the sizes and checksums of")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    said = {row[1].strip(" `"): row[2:6] for row in rows}
    assert len(said) == 10
    for name, (*sizes, source) in said.items():
        numbers = [int(size.replace(",", "")) for size in sizes if size.strip()]
        if not numbers:  # no parts: the sum is in the text
            numbers = [int(re.search(r"[0-9,]{5,}", source)[0].replace(",", ""))]
        assert sum(numbers) == CATALOGUE[name].n_samples
