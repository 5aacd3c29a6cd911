"""The files beside the code that say what openset is and needs."""

import re
import tomllib
from pathlib import Path

import openset

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_conda_recipe_needs_what_the_wheel_needs():
    recipe = (ROOT / "conda.recipe/meta.yaml").read_text("utf-8")
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    found = {line.strip(" -").replace(" ", "") for line in run.splitlines()}
    assert found == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}
    assert f"license: {PROJECT['license']}\n" in recipe


def test_one_version_is_written_everywhere():
    recipe = (ROOT / "conda.recipe/meta.yaml").read_text("utf-8")
    assert f'version: "{openset.__version__}"' in recipe
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {openset.__version__}\n" in citation


def test_continuous_integration_runs_on_every_python_that_is_promised():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    promised = re.findall(r":: (3\.\d+)'", str(PROJECT["classifiers"]))
    assert f"python: {promised}".replace("'", '"') in workflow


def test_the_tests_of_the_core_have_the_same_extras_everywhere():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (extras,) = re.findall(r"LOWEST_EXTRAS := (.+)", makefile)
    assert f"  EXTRAS: {extras.replace(' ', ',')}\n" in workflow


def test_the_tests_of_the_core_exist():
    named = (ROOT / ".ci/core-tests.txt").read_text("utf-8").split()
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_shipped_data_have_their_licences():
    folder = ROOT / "src/openset/datasets/files"
    said = (folder / "README.md").read_text("utf-8")
    for path in folder.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in said
    assert str(folder.relative_to(ROOT) / "README.md") in PROJECT["license-files"]
