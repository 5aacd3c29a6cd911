"""`openset datasets`."""

import json
import re

from typer.testing import CliRunner

from openset import datasets
from openset.cli import app
from openset.datasets.catalogue import CATALOGUE

RUNNER = CliRunner()
ALWAYS = [
    name for name in CATALOGUE.built_in() if CATALOGUE[name].how == "always there"
]


def named(kind):
    return [s.name for s in CATALOGUE.values() if s.kind == kind]


def run(*words):
    result = RUNNER.invoke(app, ["datasets", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_data_set_is_listed_with_kind_size_and_how_to_get_it(tmp_path):
    text = run("--root", tmp_path)
    order = ["Images", *named("image"), "Texts", *named("text")]
    order += ["Tables of numbers", *named("table")]
    places = [re.search(rf"^ {re.escape(n)}( |$)", text, re.M).start() for n in order]
    assert places == sorted(places)  # each under the title of its kind
    lines = {line.split()[0]: line for line in text.splitlines() if line.split()}
    for name, source in CATALOGUE.items():
        if source.n_samples is not None:
            assert f"{source.n_samples:,}" in lines[name]
    assert "here" in lines["digits"]
    assert "download" in lines["mnist"]
    assert "here" in lines["letter"]
    assert "by hand" in lines["stanford-cars"]
    assert f"{len(ALWAYS)} of {len(CATALOGUE)} present" in text


def test_what_lies_in_root_is_here(tmp_path):
    (tmp_path / "images_background").mkdir()  # for omniglot and omniglot28
    text = run("--root", tmp_path)
    assert f"{len(ALWAYS) + 2} of {len(CATALOGUE)} present" in text


def test_the_list_can_be_json(tmp_path):
    records = json.loads(run("--root", tmp_path, "--json"))
    assert [r["name"] for r in records] == datasets.names()
    assert [r["name"] for r in records if r["here"]] == ALWAYS
    ways = {r["name"]: (r["how"], r["from"]) for r in records}
    uci = "https://archive.ics.uci.edu/dataset/59"
    assert ways["letter"] == ("always there", uci)
    assert ways["cub"][0] == "download"
    assert ways["cub"][1].startswith("https://data.caltech.edu/")
    assert ways["stanford-cars"][0] == "by hand"


def test_one_data_set_says_which_file_goes_where(tmp_path):
    text = run("cub", "--root", tmp_path)
    assert text.startswith("cub: bird species")
    assert str(tmp_path / "cub" / "CUB_200_2011.tgz") in text


def test_one_data_set_can_be_json(tmp_path):
    found = json.loads(run("cub", "--json", "--root", tmp_path))
    assert (found["name"], found["n_classes"], found["here"]) == ("cub", 200, False)


def test_a_folder_is_no_markup(tmp_path):
    assert "[red]data/cub/" in run("cub", "--root", tmp_path / "[red]data")


def test_an_unknown_name_lists_the_known_ones():
    result = RUNNER.invoke(app, ["datasets", "imagenot"])
    assert isinstance(result.exception, ValueError)
    assert "openset datasets: NAME must be one of '" in str(result.exception)
