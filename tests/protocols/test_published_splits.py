"""The published splits: sizes and coincidences; their hashes are in tests/golden."""

import pytest

from openset.protocols import Draws, names, published, splits

# (known, unknown) class counts, as published.
SMALL = dict.fromkeys(("mnist", "svhn", "cifar10"), (6, 4))
SMALL |= {"cifar+10": (4, 10), "cifar+50": (4, 50), "tinyimagenet": (20, 180)}
SIZES = {(name, i): size for name, size in SMALL.items() for i in range(5)} | {
    ("cub", "Easy"): (100, 32),
    ("cub", "Medium"): (100, 34),
    ("cub", "Hard"): (100, 34),
    ("fgvc-aircraft", "Easy"): (50, 20),
    ("fgvc-aircraft", "Medium"): (50, 17),
    ("fgvc-aircraft", "Hard"): (50, 13),
    ("stanford-cars", "Easy"): (98, 76),
    ("stanford-cars", "Medium"): (98, 15),
    ("stanford-cars", "Hard"): (98, 7),
    ("imagenet-21k-p", "Easy"): (991, 1000),
    ("imagenet-21k-p", "Hard"): (991, 1000),
    ("imagenet-21k-p-winter21", "Easy"): (991, 1000),
    ("imagenet-21k-p-winter21", "Hard"): (991, 980),
    ("imagenet-protocols", "P1"): (116, 166),
    ("imagenet-protocols", "P2"): (30, 55),
    ("imagenet-protocols", "P3"): (151, 164),
}


def test_every_split_has_its_published_sizes_and_disjoint_parts():
    assert {(name, split) for name in names() for split in splits(name)} == set(SIZES)
    for (name, split), sizes in SIZES.items():
        p = published(name, split)
        assert (p.n_known, p.n_unknown) == sizes
        if name in ("mnist", "svhn", "cifar10", "tinyimagenet"):
            assert p.classes
            assert not p.unused


@pytest.mark.parametrize(
    ("name", "total"), [("cub", 200), ("fgvc-aircraft", 100), ("stanford-cars", 196)]
)
def test_levels_are_disjoint_and_with_the_knowns_complete(name, total):
    levels = [published(name, level) for level in ("Easy", "Medium", "Hard")]
    together = [*levels[0].known, *(c for p in levels for c in p.unknown)]
    assert sorted(together) == list(range(total))


def test_the_imagenet_protocol_agrees_with_rows_of_its_authors_lists():
    p = published("imagenet-protocols", "p2")
    assert p.known[27:] == ("n02095314", "n02095570", "n02095889")  # labels 27 to 29
    assert p.negative[:3] == ("n02096051", "n02096177", "n02096294")
    # From the foxes to the wild cats: domestic cats (n0212...) are left out.
    at = p.unknown.index("n02120505")
    assert p.unknown[at - 1 : at + 2] == ("n02120079", "n02120505", "n02125311")
    assert len({*p.known, *p.negative, *p.unknown}) * 50 == 5800  # images of their list
    easy, hard = (published("imagenet-21k-p", level) for level in ("Easy", "Hard"))
    assert not {*easy.known, *easy.unknown} & set(hard.unknown)
    winter = published("imagenet-21k-p-winter21", "Hard").unknown
    assert set(winter) < set(hard.unknown)


def test_splits_that_are_one_problem_are_found():
    expected = {"mnist": (), "svhn": ((0, 1),), "cifar10": ((0, 1),), "cifar+50": ()}
    for name, found in expected.items():
        assert Draws([published(name, i) for i in range(5)]).duplicates == found
    one, two = published("cifar+10", 1), published("cifar+10", 2)
    assert set(one.known) == set(two.known) == {1, 6, 7, 9}
    assert (one.source_of("known"), one.source_of("unknown")) == ("cifar10", "cifar100")
    assert one.unknown == published("cifar+50", 1).unknown[-10:]


def test_a_split_may_be_named_as_on_a_command_line():
    assert published("cifar10", "3") == published("cifar10", 3)
    assert published("cub", "hard") == published("cub", "Hard")


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("cifar11", 0, "name must be one of 'mnist', 'svhn'"),
        ("cifar10", 5, "split of 'cifar10' must be one of 0, 1, 2, 3, 4, got 5"),
        ("cub", 0, "must be one of 'Easy', 'Medium', 'Hard', got 0"),
        ("cifar10", False, "got False"),
    ],
)
def test_unknown_names_and_splits_list_the_possible_ones(name, split, message):
    with pytest.raises(ValueError, match=message):
        published(name, split)
