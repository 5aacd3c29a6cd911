"""The package of docs/plugins.md: installed, checked, studied, saved, served."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from openset import runs
from tests.guests.packages import REPOSITORY, environment, install, openset, python
from tests.serve.live import serving

PAGE = (REPOSITORY / "docs" / "plugins.md").read_text("utf-8")


def block(language, mark):
    """Return the block of the page that holds these words."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    (one,) = [text for text in found if mark in text]
    return one


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Give a folder where the package is installed and its study has run."""
    folder = tmp_path_factory.mktemp("guest")
    project = tomllib.loads(block("toml", "entry-points"))["project"]
    module = block("python", "class Margin")
    site = install(
        folder,
        name=project["name"],
        version=project["version"],
        modules={"margin_detector.py": module},
        entry_points=project["entry-points"],
    )
    (folder / "study.yaml").write_text(block("yaml", "protocols"), "utf-8")
    env = environment(site)
    words = block("sh", "openset bench").splitlines()[0].split()[1:]
    openset(*words, cwd=folder, env=env)
    (network,) = (folder / "runs" / "margin" / "networks").iterdir()
    for part in ("train", "validation", "surrogate", "test"):
        shutil.copytree(network / part, folder / part)
    calibrate = block("sh", "openset bench").replace("\\\n", "").splitlines()[1]
    openset(*calibrate.split()[1:], cwd=folder, env=env)
    return folder


def env_of(place):
    return environment(place / "site")


def bare(place):
    """Return an environment where the module can be imported, but is not installed."""
    folder = place / "uninstalled"
    folder.mkdir(exist_ok=True)
    shutil.copy(place / "site" / "margin_detector.py", folder)
    return environment(folder)


def test_it_is_listed_and_keeps_the_contract(place):
    listed = openset("detectors", cwd=place, env=env_of(place))
    assert re.search(r"^ *margin\b", listed, flags=re.MULTILINE)
    python(block("python", "check_detector"), cwd=place, env=env_of(place))


def test_its_cells_ran_on_two_workers(place):
    rows = runs.results(place / "runs" / "margin").where(metric="oosa")
    assert {row.detector for row in rows} == {"msp", "margin", "warm margin"}
    assert not runs.failures(place / "runs" / "margin")


def test_the_artefact_names_its_class_and_its_package(place):
    manifest = json.loads((place / "rejector" / "manifest.json").read_text())
    assert manifest["detector"]["classes"] == [
        {
            "name": "margin",
            "class": "margin_detector:Margin",
            "distribution": "margin-detector 0.1.0",
        }
    ]


def test_a_file_does_not_decide_what_is_imported(place):
    words = ("predict", "rejector", "test")
    env = bare(place)
    said = openset(*words, cwd=place, env=env, fails=True)
    assert "plugins=['margin_detector:Margin']" in " ".join(said.split())
    named = openset(*words, "--plugin", "margin_detector:Margin", cwd=place, env=env)
    assert "samples unknown" in named
    assert named == openset(*words, cwd=place, env=env_of(place))
    code = (
        "import margin_detector, openset; "
        "print(openset.Rejector.load('rejector').fitted.detector)"
    )
    assert "Margin(temperature=1.0)" in python(code, cwd=place, env=env)


def test_it_is_served(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", env_of(place)["PYTHONPATH"])
    with serving(place / "rejector") as live:
        answer = live.post(json={"logits": [[9.0, 0, 0, 0, 0], [1.0, 1, 1, 1, 1]]})
    assert answer.json()["decisions"] == [0, -1]


def test_it_is_exported(place):
    words = ("export", "rejector", "--onnx", "--out", "r.onnx")
    assert "wrote r.onnx" in openset(*words, cwd=place, env=env_of(place))


def test_a_class_of_a_notebook_is_refused_when_it_is_saved(tmp_path):
    code = """
from dataclasses import dataclass
from openset import Outputs, Rejector
from openset.detectors import Detector
from openset.testing import example_outputs

class Mine(Detector):
    def score_batch(self, state, batch):
        return batch.top_logit

train, test = example_outputs(40), example_outputs(40, seed=1, unknown=0.5)
known, other = (test.take(test.labels == -1) if i else test.take(test.labels >= 0)
                for i in (0, 1))
rejector = Rejector.calibrate(Mine().fit(train), known=known, surrogate=other)
try:
    rejector.save("here")
except ValueError as error:
    print(error)
"""
    said = python(code, cwd=tmp_path, env=environment())
    assert said.startswith("Rejector.save: __main__:Mine could not be loaded again: it")
    assert not (Path(tmp_path) / "here").exists()
