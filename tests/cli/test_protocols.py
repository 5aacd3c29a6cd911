"""`openset protocols`."""

import json

import pytest

from openset import protocols
from openset.protocols import Draws, Protocol, holdout, operational, outlier


@pytest.mark.parametrize("words", [(), ("list",)])
def test_all_published_protocols_are_listed(run, words):
    text = run("protocols", *words)
    assert set(protocols.names()) <= set(text.split())
    assert "4 of 5" in text  # SVHN repeats a problem


def test_the_list_as_json_has_every_split(run_json):
    for found in run_json("protocols", "list"):
        each = [protocols.published(found["name"], s["split"]) for s in found["splits"]]
        assert found["n_distinct"] == Draws(each).n_distinct
        assert [s["hash"] for s in found["splits"]] == [one.hash for one in each]


def test_a_file_is_shown_as_a_whole_or_one_by_its_number(run, tmp_path):
    draws = holdout(10, 6, 4, repeats=3)
    path = draws.save(tmp_path / "draws.json")
    assert "3 protocols, 3 distinct" in run("protocols", "show", path)
    assert f"hash {draws[2].hash}\n" in run("protocols", "show", path, 2)
    text = run("protocols", "show", path, 1, "--json")
    assert Protocol.from_dict(json.loads(text)) == draws[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("holdout 10 --known 6 --unknown 4 --seed 3", holdout(10, 6, 4, rng=3)),
        (
            "holdout a,b,c --known 2 --unknown 1 --repeats 4",
            holdout(["a", "b", "c"], 2, 1, repeats=4),
        ),
        ("outlier 5 x,y --known 3", outlier(5, ["x", "y"], 3)),
        (
            "operational 14 --known 6 --surrogate 3 --unknown 4 --tests 2",
            operational(14, 6, 3, 4, n_tests=2),
        ),
    ],
)
def test_commands_draw_what_the_library_draws(run, tmp_path, words, expected):
    drawn = json.loads(run("protocols", *words.split()))
    assert type(expected).from_dict(drawn) == expected
    path = tmp_path / "drawn.json"
    assert f"wrote {path}" in run("protocols", *words.split(), "--out", path)
    assert protocols.load(path) == expected
