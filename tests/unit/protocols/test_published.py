"""The published splits: sizes, disjointness, coincidences."""

import json

import pytest

from openset import ArtefactError
from openset.protocols import (
    Draws,
    _published,
    candidates,
    names,
    published,
    similar,
    splits,
)

# (known, unknown) class counts, as published.
SIZES = {
    **{(name, i): (6, 4) for name in ("mnist", "svhn", "cifar10") for i in range(5)},
    **{("cifar+10", i): (4, 10) for i in range(5)},
    **{("cifar+50", i): (4, 50) for i in range(5)},
    **{("tinyimagenet", i): (20, 180) for i in range(5)},
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


def test_every_published_split_is_listed():
    assert {(name, split) for name in names() for split in splits(name)} == set(SIZES)


@pytest.mark.parametrize(("name", "split"), SIZES)
def test_every_published_split_has_its_published_sizes(name, split):
    p = published(name, split)
    assert (p.n_known, p.n_unknown) == SIZES[name, split]
    assert len(set(p.known)) == p.n_known
    assert len(set(p.unknown)) == p.n_unknown
    if p.source_of("unknown") == p.source:
        assert not set(p.known) & set(p.unknown)


def test_the_imagenet_protocol_agrees_with_rows_of_its_authors_lists():
    p = published("imagenet-protocols", "p2")
    assert len(p.negative) == 31
    assert p.known[27:] == ("n02095314", "n02095570", "n02095889")  # labels 27 to 29
    assert p.negative[:3] == ("n02096051", "n02096177", "n02096294")
    # From the foxes to the wild cats: domestic cats (n0212...) are left out.
    at = p.unknown.index("n02120505")
    assert p.unknown[at - 1 : at + 3] == (
        *("n02120079", "n02120505"),
        *("n02125311", "n02127052"),
    )
    everything = {*p.known, *p.negative, *p.unknown}
    assert len(everything) * 50 == 5800  # images of the test list, 50 of each class
    assert similar("imagenet-protocols", "P2") == ()


# Of the authors' lists of test images (version 2): the length of the file, and classes
# that were read in it, each with the rank of the first one in its part.
IMAGENET_FILES = {
    "P1": (
        803_000,
        ("known", 0, ["n02085620", "n02085782", "n02085936", "n02086079"]),
        ("unknown", 41, ["n03447721", "n03452741", "n03467068", "n03476684"]),
        ("unknown", 45, ["n03485407", "n03492542", "n03494278"]),
        ("unknown", 65, ["n03770679", "n03773504", "n03777568", "n03785016"]),
        ("unknown", 90, ["n03977966", "n03992509", "n03995372", "n04008634"]),
        ("unknown", 94, ["n04009552", "n04037443", "n04040759"]),
        ("unknown", 142, ["n07684084", "n07693725", "n07695742", "n07714571"]),
    ),
    "P3": (
        949_650,
        ("known", 131, ["n03642806", "n03770679", "n03796401", "n03891251"]),
        ("known", 135, ["n03977966", "n04037443", "n04238763"]),
        ("unknown", 123, ["n03710637", "n03710721", "n03724870", "n03763968"]),
        ("unknown", 127, ["n03770439", "n03775071", "n03787032"]),
    ),
}


@pytest.mark.parametrize("split", IMAGENET_FILES)
def test_the_large_imagenet_protocols_agree_with_their_authors_lists(split):
    p = published("imagenet-protocols", split)
    length, *read = IMAGENET_FILES[split]
    for part, rank, classes in read:
        assert list(getattr(p, part)[rank : rank + len(classes)]) == classes
    for part in (p.known, p.negative, p.unknown):
        assert list(part) == sorted(set(part))
    labels = [*range(p.n_known), *([-1] * len(p.negative)), *([-2] * p.n_unknown)]
    row = "val/n00000000/ILSVRC2012_val_00000000.JPEG,{}\n"
    assert sum(50 * len(row.format(label)) for label in labels) == length
    assert len({*p.known, *p.negative, *p.unknown}) == len(labels)


@pytest.mark.parametrize("name", ["mnist", "svhn", "cifar10", "tinyimagenet"])
def test_unknowns_of_the_small_sets_are_the_complement(name):
    for split in splits(name):
        assert published(name, split).is_complete


@pytest.mark.parametrize(
    ("name", "total"), [("cub", 200), ("fgvc-aircraft", 100), ("stanford-cars", 196)]
)
def test_levels_are_disjoint_and_with_the_knowns_complete(name, total):
    levels = [published(name, level) for level in ("Easy", "Medium", "Hard")]
    assert len({p.known for p in levels}) == 1
    together = [*levels[0].known, *(c for p in levels for c in p.unknown)]
    assert sorted(together) == list(range(total))


def test_the_unknowns_of_cifar_plus_ten_are_the_last_ten_of_plus_fifty():
    for i in range(5):
        ten, fifty = published("cifar+10", i), published("cifar+50", i)
        assert ten.known == fifty.known
        assert ten.unknown == fifty.unknown[-10:]
        assert ten.source_of("known") == "cifar10"
        assert ten.source_of("unknown") == "cifar100"
        assert max(fifty.unknown) < 100


def test_imagenet_levels_are_disjoint_and_from_the_pool():
    easy, hard = (published("imagenet-21k-p", level) for level in ("Easy", "Hard"))
    pool = set(candidates())
    assert len(pool) == 10_230
    assert set(easy.unknown) | set(hard.unknown) <= pool
    assert not set(easy.unknown) & set(hard.unknown)
    assert not set(easy.known) & (set(easy.unknown) | set(hard.unknown))


def test_the_winter_release_has_the_same_easy_and_a_smaller_hard():
    fall = {s: published("imagenet-21k-p", s).unknown for s in ("Easy", "Hard")}
    winter = {
        s: published("imagenet-21k-p-winter21", s).unknown for s in ("Easy", "Hard")
    }
    assert winter["Easy"] == fall["Easy"]
    assert set(winter["Hard"]) < set(fall["Hard"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mnist", ()), ("svhn", ((0, 1),)), ("cifar10", ((0, 1),)), ("tinyimagenet", ())],
)
def test_published_splits_that_are_one_problem_are_found(name, expected):
    assert Draws([published(name, i) for i in range(5)]).duplicates == expected


def test_cifar_plus_splits_one_and_two_share_their_known_classes():
    one, two = published("cifar+10", 1), published("cifar+10", 2)
    assert set(one.known) == set(two.known) == {1, 6, 7, 9}
    assert len(set(one.unknown) ^ set(two.unknown)) == 2  # one class exchanged


def test_splits_of_svhn_and_cifar10_have_the_known_sets_of_the_reference():
    assert set(published("svhn", 0).known) == {2, 3, 5, 6, 7, 8}
    assert set(published("cifar10", 0).known) == {0, 1, 4, 6, 7, 9}
    assert set(published("cifar+10", 4).known) == {0, 1, 8, 9}


def test_look_alikes_pair_known_with_unknown_classes():
    for name, split in SIZES:
        p = published(name, split)
        for known, unknown in similar(name, split):
            assert set(known) <= set(p.known)
            assert set(unknown) <= set(p.unknown)
    assert len(similar("cub", "Hard")) == 34
    assert len(similar("imagenet-21k-p-winter21", "Hard")) == 980
    assert similar("cifar10", 0) == similar("stanford-cars", "Easy") == ()


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


def test_a_damaged_installation_is_noticed():
    with pytest.raises(ArtefactError, match=r"splits.json.xz is damaged.*Install"):
        _published._read(b"not xz")
    packed = _published.lzma.compress(b"{}")
    with pytest.raises(ArtefactError, match=r"damaged\. Install openset again"):
        _published._read(packed)


def known_in(name):
    """Return how often each class is known over the splits of a set."""
    drawn = [published(name, split) for split in splits(name)]
    return [sum(c in p.known for p in drawn) for c in range(len(drawn[0].classes))]


def test_what_the_documentation_says_of_always_and_never_known_classes():
    assert known_in("mnist")[1] == 0
    assert [c for c, n in enumerate(known_in("mnist")) if n == 5] == [3, 4]
    assert [c for c, n in enumerate(known_in("svhn")) if n == 5] == [2]
    assert [c for c, n in enumerate(known_in("cifar10")) if n == 5] == [1, 7, 9]
    assert known_in("tinyimagenet").count(0) == 120


def test_cifar_plus_fifty_has_five_problems_of_four_known_sets():
    drawn = [published("cifar+50", i) for i in range(5)]
    assert Draws(drawn).duplicates == ()
    assert len({frozenset(p.known) for p in drawn}) == 4


@pytest.fixture(scope="module")
def reference(compact_copies):
    """Load the splits as they were collected, before they were packed."""
    path = compact_copies.parent / "reference" / "splits.json"
    if not path.exists():
        pytest.skip("the collected splits are not beside the compact copies")
    return json.loads(path.read_text("utf-8"))


def test_small_splits_are_the_collected_ones_in_order(reference):
    collected = {
        (name, i): (tuple(split["known"]), tuple(split["unknown"]))
        for name, entry in reference["small_scale"].items()
        for i, split in enumerate(entry["splits"])
    }
    assert len(collected) == 30
    for (name, i), (known, unknown) in collected.items():
        p = published(name, i)
        # known[i] is trained as label i: the order is part of the split.
        assert (p.known, p.unknown) == (known, unknown)


def test_fine_grained_splits_are_the_collected_ones_in_order(reference):
    entries = reference["fine_grained_ssb"]
    assert set(entries) == {"cub", "fgvc-aircraft", "stanford-cars"}
    for name, entry in entries.items():
        for level in ("Easy", "Medium", "Hard"):
            p = published(name, level)
            assert p.known == tuple(entry["known"])
            assert p.unknown == tuple(entry["unknown"][level])
            assert len(p.classes) == entry["num_classes_total"]


def test_imagenet_splits_are_the_collected_ones_in_order(reference):
    fall, winter = (reference["imagenet_ssb"][k] for k in ("fall11", "winter21"))
    for level in ("Easy", "Hard"):
        p = published("imagenet-21k-p", level)
        assert p.known == tuple(fall["known_imagenet1k_wnids"])
        assert p.unknown == tuple(fall[f"unknown_{level.lower()}"])
        later = published("imagenet-21k-p-winter21", level)
        assert later.known == p.known
        assert later.unknown == tuple(winter[f"unknown_{level.lower()}"])
    assert list(candidates()) == fall["candidate_pool_imagenet21kp_wnids"]
