"""The `Protocol` value: validation, hash, files."""

import numpy as np
import pytest

from openset import ArtefactError, protocols
from openset.protocols import Draws, Protocol

PETS = {"known": ["cat", "dog"], "unknown": ["fox"]}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"unknown": ["dog"]}, ValueError, "known and unknown must be disjoint"),
        ({"surrogate": ["fox"]}, ValueError, "unknown and surrogate must be disjoint"),
        ({"negative": ["cat"]}, ValueError, "known and negative must be disjoint"),
        (
            {"surrogate": ["fox"], "surrogate_source": "b", "unknown_source": "b"},
            ValueError,
            "unknown and surrogate must be disjoint",
        ),
        ({"known": ["cat", "cat"]}, ValueError, "known must be free of duplicates"),
        ({"known": []}, ValueError, "known must be non-empty, got no classes"),
        ({"unknown": []}, ValueError, "unknown must be non-empty"),
        ({"known": "cat"}, TypeError, "known must be a list of class names"),
        ({"known": 3}, TypeError, "known must be a list of class names"),
        ({"known": [1.5]}, TypeError, "known must be class names or numbers, got 1.5"),
        ({"known": [True]}, TypeError, "known must be class names or numbers"),
        ({"known": [-1, 2]}, ValueError, "-1 marks unknown samples"),
        ({"classes": ["cat", "dog"]}, ValueError, "unknown must be among classes"),
        ({"validation": 1.0}, ValueError, r"validation must be a number in \[0, 1\)"),
        ({"n_tests": 0}, ValueError, "n_tests must be an integer >= 1"),
        ({"unknowns": "some"}, ValueError, "unknowns must be one of 'dealt', 'shared'"),
        ({"seed": -1}, ValueError, "seed must be an integer >= 0"),
        ({"seed": 1.5}, ValueError, "seed must be an integer >= 0"),
        ({"source": 3}, TypeError, "source must be a string"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_rule(changes, error, message):
    with pytest.raises(error, match=f"Protocol: .*{message}"):
        Protocol(**(PETS | changes))


def test_numpy_classes_become_plain_ones_and_unused_ones_are_told():
    p = Protocol(known=np.array([3, 1]), unknown=np.array(["x"]))
    assert p.known == (3, 1)
    assert [type(c) for c in (*p.known, *p.unknown)] == [int, int, str]
    p = Protocol(**PETS, classes=["cat", "cow", "dog", "fox"])
    assert p.unused == ("cow",)
    assert "unused=1" in repr(p)


def test_the_hash_covers_the_content_and_not_the_title():
    p = Protocol(**PETS)
    assert Protocol(**PETS, name="title").hash == p.hash
    for changes in (
        {"known": ["dog", "cat"]},
        {"seed": 1},
        {"validation": 0.1},
        {"n_tests": 2},
        {"unknowns": "shared"},
        {"surrogate": ["cow"]},
        {"source": "pets"},
        {"classes": ["cat", "dog", "fox"]},
    ):
        assert Protocol(**(PETS | changes)).hash != p.hash


def test_a_name_and_a_number_are_different_classes():
    one, other = Protocol(known=[1], unknown=[2]), Protocol(known=["1"], unknown=["2"])
    assert one.hash != other.hash
    assert one.problem != other.problem
    p = Protocol(**PETS)
    q = Protocol(known=["dog", "cat"], unknown=["fox"], seed=5, validation=0.3)
    assert p.problem == q.problem  # it forgets order, seed and rules


def test_a_file_gives_back_what_was_saved(tmp_path):
    p = Protocol(**PETS, surrogate=["Käse"], seed=7, name="pets")
    other = Protocol(known=["cat", "fox"], unknown=["dog"])
    for one in (p, Draws((p, other))):
        assert protocols.load(one.save(tmp_path / "pets.json")) == one
    with pytest.raises(ValueError, match=r"path must be a \.json file, got 'p.txt'"):
        p.save(tmp_path / "p.txt")
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        protocols.load(tmp_path / "none.json")


def test_a_changed_file_is_noticed_and_the_remedy_works():
    data = Protocol(**PETS).to_dict() | {"known": ["cat", "cow"]}
    with pytest.raises(ArtefactError, match=r'The file was changed.*delete its "hash"'):
        Protocol.from_dict(data)
    del data["hash"]
    assert Protocol.from_dict(data).known == ("cat", "cow")


HEAD = '"kind": "openset.Protocol", "schema": 1'
DRAWS = '"kind": "openset.Draws", "schema": 1, "protocols"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("\xff\xfe\0", r"not JSON: .*utf-16(.|\n)*one.json"),
        ("[]", "must be an openset.Protocol of schema 1, got None of schema None"),
        ('{"kind": "x"}', "must be an openset.Protocol of schema 1, got x of"),
        ('{"kind": "openset.Protocol", "schema": 9}', "of schema 9. Upgrade openset"),
        (f"{{{HEAD}}}", "missing 2 required .* 'known'"),
        (
            f'{{{HEAD}, "known": [1], "unknown": [1]}}',
            "not a protocol: Protocol: known and unknown must be disjoint",
        ),
        (f'{{{HEAD}, "known": [1], "unknown": [2], "colour": 3}}', "'colour'"),
        (f"{{{DRAWS}: []}}", "a non-empty list"),
        (f"{{{DRAWS}: [{{}}]}}", "must be an openset.Protocol of"),
    ],
)
def test_damaged_files_say_what_is_wrong(text, message, tmp_path):
    (tmp_path / "one.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ArtefactError, match=message):
        protocols.load(tmp_path / "one.json")


def test_draws_report_duplicates_and_refuse_nothing_and_strangers():
    p, q = Protocol(**PETS), Protocol(known=["dog", "cat"], unknown=["fox"], seed=3)
    draws = Draws((p, Protocol(known=["cat", "fox"], unknown=["dog"]), q))
    assert draws.duplicates == ((0, 2),)
    assert draws.n_distinct == 2
    assert draws[1:] == draws.protocols[1:]
    with pytest.raises(ValueError, match="non-empty"):
        Draws(())
    with pytest.raises(TypeError, match="must be Protocol values"):
        Draws(("cat",))
