"""Data sets of other packages: registered, installed, or named as module:function."""

import json
import sys
from dataclasses import replace

import pytest

from openset import ArtefactError, datasets, protocols
from openset.datasets.catalogue import CATALOGUE
from tests import forked

MODULE = """
from pathlib import Path

import numpy as np
from openset import datasets

Path(__file__).with_suffix(".ran").touch()


def birds(root):
    labels = np.arange(8) % 4
    inputs = np.column_stack([labels, labels % 2])
    return datasets.from_arrays(inputs, labels, name="my birds")
"""


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Return a folder with a module of a guest, which this process can import."""
    (tmp_path / "guest_birds.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("guest_birds", None)


@pytest.fixture
def clean(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(CATALOGUE, "_values", dict(CATALOGUE._values))  # no public way


def test_a_loader_is_named_by_its_module(guest):
    found = datasets.load("guest_birds:birds")
    assert len(found) == 8
    # Protocols say which data set their classes are of: one that can be loaded again.
    assert (found.name, found.label_set) == ("guest_birds:birds",) * 2
    assert datasets.is_name("guest_birds:birds")


def test_a_registered_data_set_is_like_the_others(clean, guest, monkeypatch):
    import guest_birds  # noqa: PLC0415

    seen = []

    def noted(root):
        """Three species, as two numbers each.

        More about them.
        """
        seen.append(root)
        return replace(guest_birds.birds(root), label_set="letter")

    datasets.register("birds", noted, kind="table", n_classes=4)
    here = datasets.available("no/such/folder")
    assert (datasets.names()[-1], here[0], here[-1]) == ("birds", "digits", "birds")
    assert datasets.info("birds").about == "Three species, as two numbers each."
    assert "plug-in tests.datasets" in datasets.describe("birds", "data")
    assert seen == []  # lists read nothing
    found = datasets.load("birds", guest)
    assert (found.name, found.label_set) == ("birds", "letter")
    monkeypatch.setenv("OPENSET_DATA", str(guest / "other"))
    datasets.load("birds")
    assert seen == [guest, guest / "other"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("guest_none:birds", ImportError, "guest_none:birds' could not be imported"),
        ("math:pi", TypeError, r"a function \(root\) -> Dataset, got float"),
        ("os.path:isdir", TypeError, "must be a Dataset, got bool"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name, error, message):
    with pytest.raises(error, match=message):
        datasets.load(name)


def test_an_installed_package_offers_its_data_sets_and_hides_no_other(guest):
    info = guest / "guest_birds-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[openset.datasets]\nbirds = guest_birds:birds\nghosts = guest_birds:gone\n"
    )
    said = forked.run(("datasets", "--json"), cwd=guest, path=guest).stdout
    records = {one["name"]: one for one in json.loads(said)}
    assert records["digits"]["here"]
    assert records["birds"]["how"] == "plug-in guest_birds:birds"
    assert records["ghosts"]["how"] == "broken plug-in"
    assert "guest_birds:gone" in records["ghosts"]["about"]


def test_a_protocol_file_does_not_decide_which_code_runs(guest):
    pytest.importorskip("torch", reason="the extra torch")
    pytest.importorskip("yaml", reason="the extra bench")
    with pytest.raises(ArtefactError, match="name must be a registered or installed"):
        datasets.load("guest_birds:birds", imports=False)
    p = protocols.Protocol(
        known=[0, 1], unknown=[0], source="digits", unknown_source="guest_birds:birds"
    )
    study = f"""
protocols: [{{kind: file, data: digits, path: {p.save(guest / "p.json")}}}]
models: [{{kind: logistic}}]
detectors: [msp]
"""
    (guest / "study.yaml").write_text(study)
    words = ("bench", "study.yaml", "--out", guest / "run", "--jobs", "1")
    forked.run(words, cwd=guest, path=guest, check=False)
    (failed,) = (guest / "run" / "failed").glob("*.json")
    assert "registered or installed" in json.loads(failed.read_text())["error"]
    assert not (guest / "guest_birds.ran").exists()
