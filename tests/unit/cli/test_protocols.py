"""`openset protocols`."""

import json

import pytest
from typer.testing import CliRunner

from openset import protocols
from openset.cli import app
from openset.protocols import Draws, Protocol

RUNNER = CliRunner()


def run(*words):
    result = RUNNER.invoke(app, ["protocols", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("words", [(), ("list",)])
def test_all_published_protocols_are_listed(words):
    text = run(*words)
    for name in protocols.names():
        assert name in text
    assert "4 of 5" in text  # SVHN repeats a problem


def test_a_published_protocol_is_shown_with_its_classes():
    text = run("show", "cifar10", "0")
    assert "0, 6, 4, 9, 1, 7" in text
    assert "0.134" in text


def test_the_first_split_is_shown_if_none_is_named():
    assert "cub/Easy" in run("show", "cub")


def test_one_protocol_of_a_file_is_shown_by_its_number(tmp_path):
    draws = protocols.holdout(10, 6, 4, repeats=3)
    path = draws.save(tmp_path / "draws.json")
    assert f"hash {draws[2].hash}\n" in run("show", path, 2)
    assert Protocol.from_json(run("show", path, 1, "--json")) == draws[1]
    result = RUNNER.invoke(app, ["protocols", "show", str(path), "3"])
    message = "openset protocols show: SPLIT must be one of '0', '1', '2', got '3'"
    assert str(result.exception) == message


def test_names_are_no_markup(tmp_path):
    path = tmp_path / "[red]draws.json"
    names = "[bold]cat,[red]dog,fox"
    counts = ["--known", 1, "--unknown", 1]
    one = run("holdout", names, *counts, "--out", path)
    several = run("holdout", names, *counts, "--repeats", 3, "--out", path)
    for text in (one, several):
        assert "[bold]cat" in text
        assert "[red]dog" in text
        assert f"wrote {path}" in text


def test_long_lists_are_shortened():
    text = run("show", "imagenet-21k-p", "hard")
    assert "… (991)" in " ".join(text.split())


def test_a_protocol_can_be_shown_as_json():
    text = run("show", "cub", "Hard", "--json")
    assert Protocol.from_json(text) == protocols.published("cub", "Hard")


def test_holdout_prints_the_protocol_the_library_draws():
    text = run("holdout", 10, "--known", 6, "--unknown", 4, "--seed", 3)
    assert Protocol.from_json(text) == protocols.holdout(10, 6, 4, rng=3)


def test_holdout_writes_several_draws(tmp_path):
    path = tmp_path / "draws.json"
    text = run(
        "holdout", "a,b, c", "--known", 2, "--unknown", 1, "--repeats", 4, "--out", path
    )
    assert Draws.load(path) == protocols.holdout(["a", "b", "c"], 2, 1, repeats=4)
    assert "4 protocols" in text
    assert "wrote" in text
    assert "4 protocols" in run("show", path)


def test_a_data_set_lends_its_classes():
    drawn = Protocol.from_json(run("holdout", "digits", "--known", 6, "--unknown", 4))
    assert drawn.source == "digits"
    assert drawn.is_complete


def test_outlier_takes_all_classes_unless_told():
    drawn = Protocol.from_json(run("outlier", 5, "x,y", "--known", 3))
    assert (drawn.n_known, drawn.n_unknown) == (3, 2)
    assert drawn == protocols.outlier(5, ["x", "y"], 3)


def test_operational_writes_one_protocol(tmp_path):
    path = tmp_path / "protocol.json"
    counts = ("--known", 5, "--surrogate", 2, "--unknown", 3, "--tests", 2)
    text = run("operational", 10, *counts, "--out", path)
    assert protocols.load(path) == protocols.operational(10, 5, 2, 3, n_tests=2)
    assert "surrogate" in text
    assert "20% of each class" in text


def test_json_on_the_screen_is_only_json():
    assert json.loads(run("holdout", 4, "--known", 2, "--unknown", 2))


def test_bad_counts_say_what_is_wrong():
    result = RUNNER.invoke(
        app, ["protocols", "holdout", "4", "--known", "3", "--unknown", "2"]
    )
    assert isinstance(result.exception, ValueError)
    assert "at most 4, the number of classes" in str(result.exception)


def test_help_shows_examples():
    assert "openset protocols show cifar10 0" in run("--help")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("holdout 10 --known 0 --unknown 4", "--known must be an integer >= 1"),
        ("holdout 10 --known 8 --unknown 4", "--known + --unknown must be at most 10"),
        ("holdout 10 --known 6 --unknown 4 --seed -1", "--seed must be a seed >= 0"),
        ("holdout 10 --known 6 --unknown 4 --repeats 0", "--repeats must be an int"),
        ("holdout 10 --known 6 --unknown 4 --out x.txt", "--out must be a .json file"),
        ("holdout imagenot --known 1 --unknown 1", "CLASSES must be one of 'digits'"),
        ("outlier digits imagenot", "OTHER must be one of 'digits'"),
        ("outlier digits digits", "CLASSES and OTHER must be two data sets"),
        (
            "operational 10 --known 5 --surrogate 2 --unknown 3 --unknowns some",
            "--unknowns must be one of 'dealt', 'shared', got 'some'",
        ),
        (
            "operational 10 --known 5 --surrogate 2 --unknown 3 --tests 0",
            "--tests must be an integer >= 1, got 0",
        ),
        (
            "operational 10 --known 5 --surrogate 2 --unknown 3 --validation 2",
            "--validation must be a number in (0, 1), got 2.0",
        ),
        ("show imagenot", "NAME must be one of 'mnist'"),
        ("show cub 4", "SPLIT of 'cub' must be one of 'Easy'"),
        ("show gone.json", "no such file: gone.json"),
    ],
)
def test_errors_name_the_option(words, message):
    result = RUNNER.invoke(app, ["protocols", *words.split()])
    command = f"openset protocols {words.split()[0]}: "
    assert str(result.exception).startswith(command + message)
