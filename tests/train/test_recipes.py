"""Schedules against the published check values; changes, and what is refused."""

import dataclasses
import math

import pytest

from openset.train import recipe


@pytest.mark.parametrize("warmup", [0, 10])
def test_the_schedule_is_the_textbook_one_an_epoch_late(warmup):
    made = recipe("ceplus", "cifar10", warmup=warmup)
    floor, top = 1e-4, 0.1

    def textbook(k):
        return floor + (top - floor) * (1 + math.cos(math.pi * (k % 200) / 200)) / 2

    for e in range(600):
        if warmup and e <= 10:
            expected = floor + (textbook(10) - floor) * e / 10
        else:
            expected = textbook(max(e - 1, 0))
        assert made.rate(e) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("arpl", "cifar10", (100, 64, "sgd", 0.1, 0.9, 1e-4, 0.0)),
        ("arpl", "tinyimagenet", (100, 64, "adam", 0.001, 0.0, 0.0, 0.0)),
        ("ceplus", "cifar10", (600, 128, "sgd", 0.1, 0.9, 1e-4, 0.0)),
        ("ceplus", "tinyimagenet", (600, 128, "adam", 0.01, 0.0, 0.0, 0.9)),
        ("ceplus", "cub", (600, 32, "sgd", 0.001, 0.9, 1e-4, 0.3)),
        ("ceplus", "fgvc-aircraft", (600, 32, "sgd", 0.001, 0.9, 1e-4, 0.2)),
        ("torchosr", "cifar10", (128, 64, "sgd", 1e-3, 0.0, 0.0, 0.0)),
        ("ceplus", "of one's own", (600, 128, "sgd", 0.1, 0.9, 1e-4, 0.0)),
    ],
)
def test_recipes_have_the_published_constants(name, data, expected):
    made = recipe(name, data)
    of_optimiser = (made.optimiser, made.lr, made.momentum, made.weight_decay)
    assert (made.epochs, made.batch, *of_optimiser, made.smoothing) == expected


# Of the release's README: only where ARPL+ and ARPL+CS+ differ from CE+.
ARPL_PLUS = {
    "mnist": (0.1, 8, 0.0),
    "cifar10": (0.1, 15, 0.0),
    "cifar+10": (0.1, 6, 0.0),
    "tinyimagenet": (0.001, 9, 0.9),
    "cub": (0.001, 30, 0.2),
    "fgvc-aircraft": (0.001, 18, 0.1),
}


@pytest.mark.parametrize("method", ["arpl", "arpl_cs"])
@pytest.mark.parametrize(("data", "expected"), ARPL_PLUS.items())
def test_arpl_by_the_recipe_ceplus_is_arpl_plus(method, data, expected):
    lr, magnitude, smoothing = expected
    # Everything else is CE+'s, and other recipes do not ask for the method.
    like = recipe("ceplus", data)
    pipeline = dataclasses.replace(like.pipeline, magnitude=magnitude)
    changed = {"lr": lr, "smoothing": smoothing, "pipeline": pipeline}
    made = recipe("ceplus", data, method=method)
    assert made == dataclasses.replace(like, **changed)
    assert recipe("ceplus", data, method="openauc") == like
    assert recipe("arpl", "cifar10", method=method) == recipe("arpl", "cifar10")


def test_the_pipelines_are_those_of_the_releases():
    assert recipe("arpl", "cifar10").pipeline.mean is None
    assert recipe("arpl", "mnist").pipeline.flip is False
    b = recipe("ceplus", "svhn").pipeline
    assert (b.n_ops, b.magnitude, b.side, b.padding, b.flip) == (1, 18, 32, 4, True)
    assert b.mean == (0.4914, 0.4822, 0.4465)
    t = recipe("torchosr", "cifar10").pipeline
    assert (t.n_ops, t.padding, t.flip, t.mean) == (0, 0, False, None)


@pytest.mark.parametrize(
    ("epochs", "cycle", "warmup"),
    [(100, 100, 5), (10, 10, 0), (1, 1, 0), (300, 200, 10)],
)
def test_a_short_cosine_is_one_cycle_with_warm_up_in_proportion(epochs, cycle, warmup):
    made = recipe("ceplus", "cifar10", epochs=epochs)
    assert (made.cycle, made.warmup) == (cycle, warmup)


@pytest.mark.parametrize(
    ("epochs", "milestones"),
    [(10, (3, 6, 9)), (200, (60, 120, 180)), (1, (1, 1, 1)), (100, (30, 60, 90))],
)
def test_milestones_move_with_the_length(epochs, milestones):
    made = recipe("arpl", "cifar10", epochs=epochs)
    assert made.milestones == milestones
    assert made.rate(0) == 0.1
    last = milestones[-1]  # each one has lowered the rate by then
    assert made.rate(last) == pytest.approx(1e-4)
    assert made.rate(last - 1) == pytest.approx(1e-3 if last > 1 else 0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": 3}, "train.recipe: a change must be one of .*'epochs'.*got 'epoch'"),
        ({"epochs": 600.0}, "epochs must be an integer >= 1, got 600.0"),
        ({"batch": -1}, "batch must be an integer >= 1, got -1"),
        ({"lr": 0}, r"lr must be a number in \(0, inf\), got 0"),
        ({"lr": math.nan}, r"lr must be a number in .*got nan"),
        ({"weight_decay": "no"}, "weight_decay must be a number in .*got 'no'"),
        ({"momentum": math.inf}, r"momentum must be a number in \[0, inf\), got inf"),
        ({"optimiser": "lion"}, "optimiser must be one of 'sgd', 'adam', got 'lion'"),
        ({"schedule": "linear"}, "schedule must be one of .*got 'linear'"),
        ({"side": 0}, "side must be an integer >= 1, got 0"),
        ({"clean": 1.5}, r"clean must be a number in \[0, 1\], got 1.5"),
        ({"auxiliary": "jigsaw", "budget": 9}, "auxiliary must be one of 'none', 'rot"),
        ({"budget": 0}, r"budget must be a number in \(0, inf\), got 0"),
        ({"budget": 9, "epochs": 9}, "budget must be left out with epochs=9, got 9"),
    ],
)
def test_bad_changes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        recipe("ceplus", "cifar10", **changes)


def test_our_own_recipe_is_ceplus_with_five_changes():
    ours, theirs = recipe("openset", "cifar10"), recipe("ceplus", "cifar10")
    length = {"name": "openset", "epochs": 400, "cycle": 400, "auxiliary": "rotation"}
    regular = {"weight_decay": 5e-4, "dropout": 0.0, "clean": 0.1}
    assert ours == dataclasses.replace(theirs, **length, **regular)
    assert ours.budget == theirs.budget == 600
    adam = recipe("openset", "tinyimagenet")
    assert (adam.optimiser, adam.weight_decay) == ("adam", 0.0)
    assert recipe("openset", "cifar10", method="arpl").pipeline.magnitude == 15


# Digits that are turned may be others, or none; a table and texts cannot be.
UPRIGHT = ("cifar10", "cifar+50", "cub")
OTHERS = ("mnist", "svhn", "letter", "clinc150", "of one's own")


@pytest.mark.parametrize("data", [*UPRIGHT, *OTHERS])
def test_our_own_recipe_turns_images_that_have_an_upright(data):
    made = recipe("openset", data)
    expected = ("rotation", 400) if data in UPRIGHT else ("none", 600)
    assert (made.auxiliary, made.epochs) == expected
    assert (made.cycle, made.budget) == (made.epochs, 600)


@pytest.mark.parametrize(
    ("changes", "epochs", "warmup"),
    [
        ({"budget": 600}, 400, 10),
        ({"budget": 100}, 67, 3),
        ({"budget": 100, "auxiliary": "none"}, 100, 5),
        ({"auxiliary": "none"}, 600, 10),
        ({"epochs": 100}, 100, 5),  # said outright: epochs, whatever they cost
        ({"budget": 0.2}, 1, 0),
    ],
)
def test_a_budget_counts_image_passes(changes, epochs, warmup):
    made = recipe("openset", "cifar10", **changes)
    assert (made.epochs, made.cycle, made.warmup) == (epochs, epochs, warmup)


def test_published_recipes_take_a_budget_if_one_is_given():
    assert recipe("ceplus", "cifar10", auxiliary="rotation").epochs == 600
    assert recipe("ceplus", "cifar10", auxiliary="rotation", budget=600).epochs == 400
    assert recipe("arpl", "cifar10", budget=50).milestones == (15, 30, 45)


@pytest.mark.parametrize(
    ("epochs", "clean", "n_clean"),
    [(100, 0.1, 10), (67, 0.1, 7), (3, 0.1, 0), (5, 1, 5)],
)
def test_the_last_epochs_are_clean(epochs, clean, n_clean):
    made = recipe("ceplus", "cifar10", epochs=epochs, clean=clean)
    ops = [made.pipeline_of(epoch).n_ops for epoch in range(epochs)]
    assert ops == [1] * (epochs - n_clean) + [0] * n_clean
    others = {dataclasses.replace(made.pipeline_of(e), n_ops=1) for e in range(epochs)}
    assert others == {made.pipeline}
