"""The files beside the code agree with each other and with the code."""

import re
import tomllib
from pathlib import Path

import pytest

import openset

ROOT = Path(__file__).parents[1]
if not (ROOT / "pyproject.toml").exists():
    pytest.skip("not a checkout", allow_module_level=True)
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = WHOLE["project"]


def test_one_version_is_written_everywhere():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {openset.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## {re.escape(openset.__version__)}\b", changes, re.M)


def test_continuous_integration_runs_on_every_python_that_is_promised():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    promised = re.findall(r":: (3\.\d+)'", str(PROJECT["classifiers"]))
    assert f"python: {promised}".replace("'", '"') in workflow


def test_the_distributions_take_files_that_exist():
    named = WHOLE["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    docker = (ROOT / "examples/docker/Dockerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", docker, re.MULTILINE)
    for name in [*named, *" ".join(copied).split(), *PROJECT["license-files"]]:
        assert (ROOT / name.lstrip("/")).exists(), name


def test_shipped_data_have_their_licences():
    folder = ROOT / "src/openset/datasets/files"
    said = (folder / "README.md").read_text("utf-8")
    for path in folder.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in said
