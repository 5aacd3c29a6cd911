"""`openset doctor`: what is here, and what is not, without an error."""

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import __version__
from openset.cli import _installation, app, doctor

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def run(*arguments):
    result = CliRunner().invoke(app, ["doctor", *arguments], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def nothing_installed(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)


def test_the_table_fits_a_terminal_and_names_every_extra():
    output = run()
    first, *lines = output.splitlines()  # the first may be long: a platform's name
    assert first.startswith(f"openset {__version__}, Python 3.")
    assert max(map(len, lines)) <= 80
    for extra in _installation.EXTRAS:
        assert extra.name in output
    assert "cores" in output
    assert "threads" in output
    assert " :" not in output  # a library without a version
    assert "sets present" in output


def test_json_says_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSET_DATA", str(tmp_path / "data"))
    found = json.loads(run("--json"))
    assert found["openset"] == __version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["extras"]["report"].keys() == {"jinja2", "matplotlib"}
    assert found["data"]["path"] == str(tmp_path / "data")
    assert not found["data"]["exists"]
    assert found["data"]["writable"]  # it could be made
    assert "vowel" in found["data"]["here"]  # it comes with the package
    assert all(pool["threads"] >= 1 for pool in found["blas"])


@pytest.mark.skipif(not PYPROJECT.exists(), reason="not a checkout")
def test_extras_are_those_of_the_package():
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]

    def names(requirements):
        found = (re.match(r"[\w-]+", line)[0] for line in requirements)
        # Once: numpy has another bound on Windows.
        return tuple(name for name in dict.fromkeys(found) if name != "openset")

    written = {
        name: names(requirements)
        for name, requirements in project["optional-dependencies"].items()
        if name != "dev"
    }
    assert written == {extra.name: extra.packages for extra in _installation.EXTRAS}
    assert names(project["dependencies"]) == _installation.BASE


def test_what_is_missing_is_no_error(nothing_installed):
    output = run()
    assert "missing" in output
    assert "none: torch is not installed" in output
    assert json.loads(run("--json"))["packages"]["numpy"] is None


def test_networks_of_others_are_listed_with_why_they_do_not_import(
    tmp_path, monkeypatch
):
    broken = "raise RuntimeError('operator torchvision::nms does not exist\\nmore')"
    (tmp_path / "torchvision.py").write_text(broken)
    (tmp_path / "timm.py").write_text("")
    (tmp_path / "transformers").mkdir()  # imports its parts late
    (tmp_path / "transformers" / "__init__.py").write_text("")
    (tmp_path / "transformers" / "image_utils.py").write_text("import torchvision")
    monkeypatch.syspath_prepend(tmp_path)
    for name in (*_installation.NETWORKS, "transformers.image_utils"):
        # First any module, so that what is imported here is taken out at the end.
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name, sys))
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(metadata, "version", lambda name: "0.1")
    why = "RuntimeError: operator torchvision::nms does not exist"
    assert json.loads(run("--json"))["networks"] == {
        "torchvision": {"version": "0.1", "why": why},
        "timm": {"version": "0.1", "why": None},
        "transformers": {"version": "0.1", "why": why},
    }
    text = " ".join(run().split())
    assert "torchvision no 0.1 installed, but cannot be imported: RuntimeError:" in text
    assert "timm yes 0.1" in text
    # The tables agree: these import torchvision, too.
    names = ("torchmetrics", "transformers")
    assert json.loads(run("--json"))["broken"] == dict.fromkeys(names, "torchvision")
    assert "torchmetrics no" in text
    assert "but torchvision cannot be" in text


def test_networks_of_others_may_be_missing(nothing_installed):
    text = " ".join(run().split())
    assert "torchvision no — not installed" in text
    assert "timm no — not installed" in text


def test_devices_are_listed_where_there_are_some():
    one = {"name": "A card", "memory_bytes": 3 << 30}
    found = _installation.examine() | {"cuda": {"why": None, "devices": [one, one]}}
    cells = list(doctor._machine(found).columns[1].cells)
    assert "A card, 3.0 GiB; A card, 3.0 GiB" in cells
