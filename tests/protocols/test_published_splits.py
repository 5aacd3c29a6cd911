"""The published splits: names and coincidences; their hashes are in tests/golden."""

import pytest

from openset.protocols import Draws, published


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
