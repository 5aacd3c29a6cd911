"""Data sets of other packages: registered, installed, or named as module:function."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

import openset
from openset import ArtefactError, datasets
from openset.datasets.catalogue import CATALOGUE
from tests import forked
from tests.waiting import PATIENCE

SOURCES = str(Path(openset.__file__).parents[1])

MODULE = '''
import numpy as np
from openset import ArtefactError, datasets


def birds(root):
    """Three species, as two numbers each.

    More about them.
    """
    rng = np.random.default_rng(0)
    labels = np.arange(240) % 4
    inputs = rng.normal(size=(240, 2)) + 6 * np.column_stack([labels, labels % 2])
    made = datasets.from_arrays(
        inputs, labels, classes=["wren", "robin", "finch", "tit"], name="my birds"
    )
    return made.with_parts(test=0.5)


def not_a_set(root):
    return [1, 2, 3]


THREE = 3
'''


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Return a folder with a module of a guest, which this process can import."""
    folder = tmp_path / "guest"
    folder.mkdir()
    (folder / "guest_birds.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("guest_birds", None)


@pytest.fixture
def clean(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(CATALOGUE, "_values", dict(CATALOGUE._values))  # no public way


def install(folder, target="guest_birds:birds"):
    """Let the folder hold an installed package with an entry point."""
    info = folder / "guest_birds-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: guest-birds\nVersion: 0.1\n"
    )
    (info / "entry_points.txt").write_text(f"[openset.datasets]\nbirds = {target}\n")


def run(folder, *command, check=True):
    """Run a command in a process that finds the guest's folder."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([SOURCES, str(folder)]),
        "COLUMNS": "100",
        "OPENSET_DATA": str(folder),
    }
    done = subprocess.run(  # noqa: S603  # our own commands
        [sys.executable, *map(str, command)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def shell(folder, *words, check=True):
    """Run `openset` in a process that finds the guest's folder."""
    return forked.run(
        words, cwd=folder, path=folder, check=check, OPENSET_DATA=str(folder)
    )


def test_a_loader_is_named_by_its_module(guest):
    found = datasets.load("guest_birds:birds")
    assert len(found) == 240
    # Protocols say which data set their classes are of: one that can be loaded again.
    assert (found.name, found.label_set) == ("guest_birds:birds",) * 2
    assert datasets.is_name("guest_birds:birds")


def test_a_registered_data_set_is_like_the_others(clean, guest, monkeypatch):
    import guest_birds  # noqa: PLC0415

    seen = []

    def noted(root):
        """Three species, as two numbers each."""
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
    datasets.register("birds", noted)  # a module may be reloaded


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("mnist", len), ValueError, "name must be a name that is not taken"),
        (("My Birds", len), ValueError, "lower-case letters, digits, hyphens"),
        (("birds", 3), TypeError, r"loader must be a function \(root\) -> Dataset"),
    ],
)
def test_what_cannot_be_registered_is_explained(arguments, error, message, clean):
    with pytest.raises(error, match=message):
        datasets.register(*arguments)
    assert "birds" not in datasets.names()


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("guest_birds:gone", ImportError, "guest_birds:gone' could not be imported"),
        ("guest_none:birds", ImportError, "guest_none:birds' could not be imported"),
        ("guest_birds:THREE", TypeError, r"a function \(root\) -> Dataset, got int"),
        ("guest_birds:not_a_set", TypeError, "must be a Dataset, got list"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name, error, message, guest):
    with pytest.raises(error, match=message):
        datasets.load(name)


def test_an_installed_package_offers_its_data_sets(guest):
    install(guest)
    program = """
        import json
        from openset import ArtefactError, datasets
        found = datasets.load("birds")
        print(json.dumps([
            datasets.names()[-1], datasets.available()[-1], found.name, len(found),
            datasets.describe("birds"),
        ]))
    """
    last, here, name, n, text = json.loads(
        run(guest, "-c", textwrap.dedent(program)).stdout
    )
    assert (last, here, name, n) == ("birds", "birds", "birds", 240)
    assert "plug-in guest_birds:birds" in text


def test_a_broken_package_hides_no_other_data_set(guest):
    install(guest, "guest_birds:gone")
    done = shell(guest, "datasets", "--json")
    broken = json.loads(done.stdout)[-1]
    assert (broken["name"], broken["how"]) == ("birds", "broken plug-in")
    assert "guest_birds:gone', group='openset.datasets') could not" in broken["about"]
    failed = shell(guest, "datasets", "birds", check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert "Traceback" not in failed.stderr


TRAP = """
from pathlib import Path

Path(__file__).with_suffix(".ran").touch()


def birds(root):
    raise SystemExit
"""


def test_a_protocol_file_does_not_decide_which_code_runs(guest, tmp_path):
    pytest.importorskip("torch", reason="the extra torch")
    pytest.importorskip("yaml", reason="the extra bench")
    (guest / "trap.py").write_text(TRAP)
    protocol = openset.protocols.Protocol(
        known=[0, 1], unknown=[0], source="digits", unknown_source="trap:birds"
    )
    path = protocol.save(tmp_path / "p.json")
    with pytest.raises(ArtefactError, match="name must be a registered or installed"):
        datasets.load("trap:birds", imports=False)
    study = f"""
protocols: [{{kind: file, data: digits, path: {path}}}]
models: [{{kind: logistic}}]
detectors: [msp]
"""
    (guest / "study.yaml").write_text(study)
    command = ("bench", "study.yaml", "--out", tmp_path / "run")
    shell(guest, *command, "--jobs", "1", check=False)
    (failed,) = (tmp_path / "run" / "failed").glob("*.json")
    assert "registered or installed" in json.loads(failed.read_text())["error"]
    assert not (guest / "trap.ran").exists()
