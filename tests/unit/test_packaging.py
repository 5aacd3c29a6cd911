"""The files beside the code that say what openset is and needs."""

import importlib.util
import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest

import openset

ROOT = Path(__file__).parents[2]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = WHOLE["project"]


@pytest.fixture(scope="module")
def recipe():
    """Render the conda recipe as conda-build does: Jinja, then YAML."""
    jinja2 = pytest.importorskip("jinja2", reason="the extra report")
    yaml = pytest.importorskip("yaml", reason="the extra bench")
    text = (ROOT / "conda.recipe/meta.yaml").read_text("utf-8")
    strict = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
    return yaml.safe_load(strict.from_string(text).render(PYTHON="python"))


def test_the_conda_recipe_needs_what_the_wheel_needs(recipe):
    needs = {name: {one.replace(" ", "") for one in recipe["requirements"][name]}
             for name in ("host", "run")}  # fmt: skip
    python = f"python{PROJECT['requires-python']}"
    # A recipe for all systems cannot ask for more on one of them.
    wanted = {one for one in PROJECT["dependencies"] if ";" not in one}
    assert needs["run"] == {*wanted, python}
    lowest = python.partition(",")[0]
    assert needs["host"] == {*WHOLE["build-system"]["requires"], lowest, "pip"}


def test_the_conda_recipe_says_what_the_wheel_says(recipe):
    commands = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["entry_points"] == commands
    about = recipe["about"]
    assert about["summary"] == PROJECT["description"]
    assert about["license"] == PROJECT["license"]
    assert about["license_file"] == PROJECT["license-files"]
    for name in recipe["test"]["imports"]:
        assert importlib.util.find_spec(name)


def test_one_version_is_written_everywhere(recipe):
    assert recipe["package"]["version"] == openset.__version__
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {openset.__version__}\n" in citation


@pytest.fixture
def script():
    """Import a script of .ci."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / f".ci/{name}.py")
        spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
        return module

    return load


@pytest.fixture
def release(tmp_path):
    """Copy the files that a release is checked by, complete."""
    names = ["src/openset/_version.py", "CHANGELOG.md", "pyproject.toml"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changes = f"## {openset.__version__}\n"
    (tmp_path / "CHANGELOG.md").write_text(changes, "utf-8")
    said = (ROOT / "pyproject.toml").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(
        said.replace("# [project.urls]", "[project.urls]").replace(
            "# Repository = ", "Repository = "
        ),
        "utf-8",
    )
    return tmp_path


def test_a_release_whose_files_agree_is_built(script, release):
    check = script("check_release")
    assert check.problems(f"v{openset.__version__}", release) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("CHANGELOG.md", "## Unreleased\n", "CHANGELOG.md must have a section"),
        ("pyproject.toml", "[project]\n", "address of the repository"),
    ],
)
def test_a_release_without_its_texts_is_refused(script, release, name, text, expected):
    (release / name).write_text(text, "utf-8")
    (found,) = script("check_release").problems(f"v{openset.__version__}", release)
    assert expected in found


def test_a_tag_of_another_version_is_refused(script, release):
    (found,) = script("check_release").problems("v99.0", release)
    assert f"the tag must be v{openset.__version__}" in found


def test_links_of_the_readme_lead_to_the_repository_on_pypi(script):
    text = (ROOT / "README.md").read_text("utf-8")
    shown = script("readme").absolute(text, "https://host/us/", "v1")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", shown)
    assert ("!", "https://host/us/raw/v1/docs/figures/explorer.png") in links
    assert ("", "https://host/us/blob/v1/docs/start/install.md") in links
    assert all(link.startswith("https://") for _, link in links)


def test_continuous_integration_runs_on_every_python_that_is_promised():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    promised = re.findall(r":: (3\.\d+)'", str(PROJECT["classifiers"]))
    assert f"python: {promised}".replace("'", '"') in workflow


def test_continuous_integration_runs_what_is_there():
    yaml = pytest.importorskip("yaml", reason="the extra bench")
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    steps = [step for job in yaml.safe_load(text)["jobs"].values()
             for step in job["steps"]]  # fmt: skip
    said = "\n".join(step.get("run", "") for step in steps)
    files = re.findall(r"[\w./-]*\.ci/[\w.-]+|constraints\.txt", said)
    assert {name for name in files if not (ROOT / name).is_file()} == set()
    assert os.access(ROOT / ".ci/run", os.X_OK)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    rules = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    said += (ROOT / ".ci/run").read_text("utf-8")
    asked = set(re.findall(r"^make ([\w-]+)", said, flags=re.MULTILINE))
    assert "test" in asked
    assert asked <= rules


def test_the_tests_of_the_core_have_the_same_extras_everywhere():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (extras,) = re.findall(r"LOWEST_EXTRAS := (.+)", makefile)
    assert f"  EXTRAS: {extras.replace(' ', ',')}\n" in workflow


def test_the_tests_of_the_core_exist():
    named = (ROOT / ".ci/core-tests.txt").read_text("utf-8").split()
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_source_distribution_takes_only_what_is_named():
    # "README.md" alone would also take benchmarks/README.md.
    for name in WHOLE["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert name.startswith("/")
        assert (ROOT / name[1:]).exists()


def test_shipped_data_have_their_licences():
    folder = ROOT / "src/openset/datasets/files"
    said = (folder / "README.md").read_text("utf-8")
    for path in folder.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in said
    assert str(folder.relative_to(ROOT) / "README.md") in PROJECT["license-files"]
