"""Jobs: what describes a run, how data and recipe are chosen, what is refused."""

import dataclasses
import warnings

import numpy as np
import pytest

from openset import TrainingWarning, datasets, protocols
from openset.datasets import lazy_inputs
from openset.train import Job, recipe
from openset.train.plan import plans
from tests.train.tiny import (
    fit_tiny,
    image_data,
    last_unknown,
    others,
    rows_data,
)


def prepared(*jobs):
    return plans(jobs, "32-true")


def test_jobs_on_the_same_data_share_the_samples():
    first = Job(method="softmax", data=ROWS, protocol=PROTOCOL)
    changes = ({}, {"seed": 1}, {"validation": 0.3})
    one, same, other = prepared(*(dataclasses.replace(first, **c) for c in changes))
    assert one.cut is same.cut
    assert other.cut is not one.cut
    assert [p.spec.seed for p in (one, same, other)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "method", "magnitude"),
    [
        ("cifar10", "arpl", 15),
        ("cifar10", "ceplus", 6),
        ("cifar+10", "arpl", 6),  # on the same images, but with other constants
    ],
)
def test_the_recipe_has_the_constants_of_method_and_protocol(name, method, magnitude):
    protocol = protocols.published(name, 0)
    sources = {
        source: dataclasses.replace(
            image_data(n, side=32, n_classes=n, name=source),
            classes=[str(c) for c in range(n)],
        )
        for source, n in (("cifar10", 10), ("cifar100", 100))
    }
    others = {} if name == "cifar10" else {"unknown": sources["cifar100"]}
    cut = datasets.cut(sources["cifar10"], protocol, **others)
    jobs = [Job(method=method, data=cut)]
    if not others:
        own = {"data": sources["cifar10"], "protocol": protocol, "validation": 0}
        jobs.append(Job(method=method, **own))
    for one in prepared(*jobs):
        assert one.spec.data == name
        assert one.spec.recipe.pipeline.magnitude == magnitude


def test_the_validation_part_can_be_trained_on():
    found = fit_tiny(validation=0, epochs=1).outputs
    assert [(k, len(part)) for k, part in found.items()] == [
        ("train", 45),
        ("test", 60),
    ]


def _in_files(data, folder, heights=(16,)):
    """Return the same images, each in a file of its own, cut off at some height."""
    image = pytest.importorskip("PIL.Image", reason="writes the images")
    paths = [str(folder / f"{i}.png") for i in range(len(data.labels))]
    for i, (path, pixels) in enumerate(zip(paths, data.inputs, strict=True)):
        image.fromarray(pixels[: heights[i % len(heights)]]).save(path)
    return dataclasses.replace(data, inputs=lazy_inputs.ImageFiles(tuple(paths)))


def test_images_in_files_have_one_side_their_own_or_the_one_that_is_given(tmp_path):
    data, how = image_data(side=16), {"network": "osrci", "epochs": 1}
    trained = fit_tiny(_in_files(data, tmp_path), **how)
    assert trained.spec["recipe"]["pipeline"]["side"] == 16
    asked = fit_tiny(data, side=16, **how)
    ours, theirs = (one.outputs["test"].logits for one in (trained, asked))
    np.testing.assert_array_equal(ours, theirs)
    several = _in_files(data, tmp_path, heights=(14, 15, 16))
    assert len(fit_tiny(several, side=16, **how).outputs["test"]) == 24
    with pytest.raises(ValueError, match="side must be given for image files"):
        fit_tiny(several, **how)


ROWS = rows_data()
PROTOCOL = last_unknown(ROWS)
CUT = datasets.cut(ROWS, PROTOCOL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": "C"}, "recipe must be one of 'arpl', 'ceplus', .*got 'C'"),
        ({"seed": -1}, "train.fit: seed must be an integer >= 0, got -1"),
        ({"validation": 1.0}, r"validation must be a number in \[0, 1\), got 1.0"),
        ({"devices": 0}, "train.fit: devices must be an integer >= 1, got 0"),
        ({"data": "no such data"}, "no such data"),
        ({"data": CUT, "protocol": PROTOCOL}, "protocol must be left out: .*a Cut"),
        ({"protocol": PROTOCOL, "split": 1}, "split must be left out: .*published"),
        ({"data": CUT, "split": 1}, "split must be left out"),
        ({"negatives": others(ROWS)}, "negatives must be left out"),
        ({"recipe": recipe("arpl")}, "changes must be left out: .*a recipe by name"),
        ({"pretrained": True}, "pretrained must be left out: .*timm"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_tiny(**arguments)


def test_a_folder_of_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match=r"out must be a new or empty .*thesis.tex"):
        fit_tiny(out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_data_without_a_published_protocol_get_one_drawn_and_named():
    digits = datasets.load("digits")
    job = Job(method="softmax", data=digits, validation=0)
    with pytest.warns(TrainingWarning, match="digits has no published protocol") as got:
        (first,) = prepared(job)
    assert first.spec.protocol == protocols.default(digits)[0]
    unknown = ", ".join(map(str, first.spec.protocol.unknown))
    assert f"not trained on: {unknown}. " in str(got[0].message)
    with pytest.warns(TrainingWarning, match="no published protocol"):
        (third,) = prepared(dataclasses.replace(job, split=2))
    assert third.spec.protocol == protocols.default(digits)[2]
    with pytest.raises(ValueError, match="split must be one of '0', '1'"):
        prepared(dataclasses.replace(job, split=9))


def test_a_file_of_draws_is_a_protocol(tmp_path):
    digits, path = datasets.load("digits"), tmp_path / "p.json"
    draws = protocols.holdout(digits, 5, 5, 3, rng=4)
    draws.save(path)
    job = Job(method="softmax", data="digits", protocol=str(path), validation=0)
    for split in (None, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (one,) = prepared(dataclasses.replace(job, split=split))
        assert one.spec.protocol == draws[split or 0]


def test_a_missing_test_part_is_drawn_from_the_training_part_alone():
    rows = np.arange(60)
    data = dataclasses.replace(
        rows_data(60), parts={"train": rows[:40], "validation": rows[40:52]}
    )
    job = Job(method="softmax", data=data, protocol=last_unknown(data))
    (one,) = prepared(job)
    found = {
        part: getattr(one.cut, part).rows for part in ("train", "validation", "test")
    }
    assert set(found["validation"]) <= set(range(40, 52))
    assert {*found["train"], *found["test"]} <= set(range(40))
    assert not {*found["train"]} & {*found["test"]}
