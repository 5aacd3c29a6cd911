"""`openset protocols`."""

import json

import pytest

from openset import protocols
from openset.protocols import Draws, Protocol

SIZES = ("--known", 6, "--unknown", 4)


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cifar10", "0"), ("0, 6, 4, 9, 1, 7", "openness 0.134")),
        (("cub",), ("cub/Easy",)),
        (("imagenet-21k-p", "hard"), ("… (991 in --json)",)),
    ],
)
def test_a_published_protocol_is_shown(run, words, said):
    text = " ".join(run("protocols", "show", *words).split())
    assert all(one in text for one in said)


def test_a_file_is_shown_as_a_whole_or_one_by_its_number(run, tmp_path):
    draws = protocols.holdout(10, 6, 4, repeats=3)
    path = draws.save(tmp_path / "draws.json")
    assert "3 protocols, 3 distinct" in run("protocols", "show", path)
    assert f"hash {draws[2].hash}\n" in run("protocols", "show", path, 2)
    text = run("protocols", "show", path, 1, "--json")
    assert Protocol.from_dict(json.loads(text)) == draws[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("holdout", 10, *SIZES, "--seed", 3),
            lambda: protocols.holdout(10, 6, 4, rng=3),
        ),
        (
            ("holdout", "a,b, c", "--known", 2, "--unknown", 1, "--repeats", 4),
            lambda: protocols.holdout(["a", "b", "c"], 2, 1, repeats=4),
        ),
        (
            ("outlier", 5, "x,y", "--known", 3),
            lambda: protocols.outlier(5, ["x", "y"], 3),
        ),
        (
            ("operational", 14, *SIZES, "--surrogate", 3, "--tests", 2),
            lambda: protocols.operational(14, 6, 3, 4, n_tests=2),
        ),
    ],
)
def test_commands_draw_what_the_library_draws(run, tmp_path, words, expected):
    kind = type(expected())
    assert kind.from_dict(json.loads(run("protocols", *words))) == expected()
    path = tmp_path / "drawn.json"
    assert f"wrote {path}" in run("protocols", *words, "--out", path)
    assert protocols.load(path) == expected()
