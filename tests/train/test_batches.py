"""Batches of samples and of negatives, and runs with negatives."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from openset import datasets
from openset.protocols import Protocol
from openset.train import fit
from openset.train.augment import Pipeline
from openset.train.batches import Batches, as_tensor, derived
from tests.train.tiny import (
    fit_tiny,
    image_data,
    last_unknown,
    others,
    rows_data,
)

HERE = torch.device("cpu")


def negatives_of(trained):
    return trained.outputs["negative"]


def test_classes_that_are_known_or_tested_are_no_negatives():
    """Of the protocol's own, or of all classes of the data: given, or by their name."""
    digits = datasets.load("digits")
    known, negative, unknown = digits.classes[:5], digits.classes[5:8], ("8", "9")
    plain = Protocol(known=known, unknown=unknown, source="digits")
    own = dataclasses.replace(plain, negative=negative)
    for protocol, negatives in ((own, None), (plain, digits), (plain, "digits")):
        how = {"protocol": protocol, "negatives": negatives, "recipe": "arpl"}
        trained = fit_tiny(digits, method="entropic", epochs=1, **how)
        assert set(negatives_of(trained).groups) == {"5", "6", "7"}


def test_a_data_set_of_its_own_becomes_a_part_of_the_protocol(tmp_path):
    data = rows_data()
    trained = fit_tiny(data, method="entropic", epochs=1, out=tmp_path / "run")
    protocol = trained.spec["protocol"]
    assert (protocol["negative"], protocol["negative_source"]) == (["other"], "others")
    assert set(negatives_of(trained).groups) == {"other"}
    assert (negatives_of(trained).labels == -1).all()
    assert "other" not in set(trained.outputs["test"].groups)
    again = fit_tiny(data, method="entropic", epochs=1, out=tmp_path / "run")
    assert again.learner is None  # read, not trained
    more = others(data, name="more")
    with pytest.raises(ValueError, match="differs in protocol"):
        fit_tiny(
            data, method="entropic", negatives=more, epochs=1, out=tmp_path / "run"
        )


@pytest.mark.parametrize("side", [None, 18])
def test_negatives_are_resized_like_the_training_images(side):
    data = image_data(side=16)
    larger = others(image_data(side=20))
    grey = dataclasses.replace(larger, inputs=larger.inputs[..., 0])
    for negatives in (larger, grey):
        how = {"negatives": negatives, "network": "osrci", "epochs": 1}
        how |= {} if side is None else {"side": side}
        trained = fit_tiny(data, method="outlier_exposure", **how)
        assert trained.spec["recipe"]["pipeline"]["side"] == (side or 16)
        assert len(negatives_of(trained)) == 20


@pytest.mark.parametrize(
    ("negatives", "message"),
    [
        (
            None,
            "train.fit: negatives must be given for the method 'entropic', got none",
        ),
        (rows_data(), "got another Dataset with label_set='rows'"),
        (others(image_data()), "negative must be of kind 'table'"),
    ],
)
def test_impossible_negatives_are_refused(negatives, message):
    with pytest.raises(ValueError, match=message):
        fit_tiny(method="entropic", negatives=negatives)


def test_another_file_of_the_same_name_is_not_the_training_data(tmp_path):
    # A file names its data set: the negatives would be rows of the training data.
    for folder, data in (("mine", rows_data()), ("theirs", others(rows_data()))):
        (tmp_path / folder).mkdir()
        dataclasses.replace(data, name="rows", label_set="rows").save(
            tmp_path / folder / "rows.npz"
        )
    given = {"method": "entropic", "negatives": tmp_path / "theirs" / "rows.npz"}
    with pytest.raises(ValueError, match="with another name than the training data"):
        fit(data=tmp_path / "mine" / "rows.npz", progress=False, **given)


def batches_of(*, n_others=20, rank=0, world=1, per=1.0):
    data = rows_data(62)  # 47 known samples: three batches of 13, one of 8
    cut = datasets.cut(data, last_unknown(data))
    protocol = dataclasses.replace(
        cut.protocol, negative=("other",), negative_source="others"
    )
    negative = datasets.cut(data, protocol, negative=others(data, n_others)).negative
    return Batches(
        cut.train, Pipeline(), device=HERE, batch=13, seed=3, rank=rank,
        world=world, negatives=negative, n_negatives=lambda n: round(per * n),
    ), negative  # fmt: skip


def drawn(batches, epoch=0):
    return torch.cat([batch.negatives for batch in batches.epoch(epoch)])


def test_each_batch_has_its_number_of_negatives():
    batches, _ = batches_of(per=2.0)
    sizes = [(len(b.labels), len(b.negatives)) for b in batches.epoch(0)]
    assert sizes == [(13, 26)] * 3 + [(8, 16)]


def test_all_negatives_come_before_one_comes_again():
    batches, negative = batches_of(n_others=20, per=1.0)  # 47 are needed
    rows = drawn(batches)[:, 0].numpy()
    expected = np.sort(negative.inputs[:, 0])
    for first in (0, 20):
        assert_array_equal(np.sort(rows[first : first + 20]), expected)
    assert set(rows[40:]) < set(expected)
    assert not np.array_equal(rows[:20], rows[20:40])
    assert not torch.equal(drawn(batches, 1), drawn(batches, 0))
    assert torch.equal(drawn(batches, 1), drawn(batches, 1))


def plain_batches(n=62, **of_process):
    """Return batches without negatives: of 47 known samples, four of them."""
    data = rows_data(n)
    cut = datasets.cut(data, last_unknown(data))
    found = Batches(cut.train, Pipeline(), device=HERE, batch=13, seed=3, **of_process)
    return found, np.asarray(cut.train.inputs)


def test_the_order_of_known_samples_is_that_without_negatives():
    pairs = zip(batches_of()[0].epoch(2), plain_batches()[0].epoch(2), strict=True)
    for one, other in pairs:
        assert torch.equal(one.inputs, other.inputs)
        assert other.negatives is None


def test_processes_share_negatives_out_among_them():
    # More of them than needed: each is seen by one process at most.
    shares = [batches_of(n_others=60, rank=r, world=2)[0] for r in range(2)]
    rows = [set(drawn(one)[:, 0].tolist()) for one in shares]
    assert not rows[0] & rows[1]
    assert sum(map(len, rows)) == 47


def test_every_sample_has_its_turn_once_per_epoch_in_a_new_order():
    batches, inputs = plain_batches()
    seen = [torch.cat([x.inputs for x in batches.epoch(epoch)]) for epoch in range(2)]
    for one in seen:
        assert_array_equal(np.sort(one[:, 0].numpy()), np.sort(inputs[:, 0]))
    assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("world", [1, 2, 3])
def test_processes_share_every_batch_out_among_them(world):
    made = [plain_batches(rank=rank, world=world)[0] for rank in range(world)]
    shares = [list(one.epoch(0)) for one in made]
    assert [len(one) for one in made] == [len(one) for one in shares] == [4] * world
    for number, (inputs, labels, _) in enumerate(plain_batches()[0].epoch(0)):
        parts = [share[number] for share in shares]
        assert torch.equal(torch.cat([one.inputs for one in parts]), inputs)
        assert torch.equal(torch.cat([one.labels for one in parts]), labels)


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        (["a", "b"], "text", r"data must be .*got texts\. Embed"),
        (np.zeros((2, 4, 4)), "image", "data must be images as uint8.*dtype float64"),
        (np.zeros((2, 4, 4, 2), np.uint8), "image", r"dtype uint8, shape \(2, 4, 4"),
        (["a.png"], "image", "Read image files with"),
        ([[1.0, np.nan]], "table", "data must be rows of finite numbers.*with NaN"),
        ([1.0, 2.0], "table", r"shape \(2,\)"),
    ],
)
def test_what_cannot_be_trained_on_is_named(inputs, kind, message):
    with pytest.raises((ValueError, TypeError), match=message):
        as_tensor(inputs, kind, None)


def test_grey_images_get_three_equal_channels():
    grey = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    assert_array_equal(as_tensor(grey, "image", None), np.stack([grey] * 3, axis=1))


def test_no_two_places_draw_from_one_seed():
    places = [(), (1,)] + [(2, epoch, rank) for epoch in range(9) for rank in range(4)]
    seeds = [derived(seed, *place) for seed in range(5) for place in places]
    of_batches = derived(0, 1)
    seeds += [derived(of_batches, epoch) for epoch in range(9)]
    seeds += [
        derived(of_batches, e, s, r) for e in range(9) for s in (0, 7) for r in (0, 1)
    ]
    assert len(set(seeds)) == len(seeds)
