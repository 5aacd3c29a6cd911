"""Training end to end: what comes out, that it repeats, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from torch import nn

from openset import datasets, metrics
from openset.train import Execution, Job, fit_jobs, methods, recipe, recipes
from openset.train.augment import Pipeline
from openset.train.batches import Batches, derived
from openset.train.learner import make_learner
from openset.train.plan import plans
from tests.train.tiny import (
    NARROW,
    fit_tiny,
    image_data,
    image_network,
    last_unknown,
    rows_data,
    rows_network,
)

HERE = torch.device("cpu")


CPU = Execution(accelerator="cpu", progress=False)


def weights(trained):
    return {k: v.clone() for k, v in trained.learner.state_dict().items()}


def assert_same(one, other):
    """Check that two runs have the same weights, and logs but for the clock."""
    torch.testing.assert_close(weights(one), weights(other), rtol=0, atol=0)
    for line, again in zip(one.log, other.log, strict=True):
        for key in line.keys() - {"seconds", "samples_per_second"}:
            assert line[key] == again[key]


def check_trained(trained, data, method):
    cut = datasets.cut(data, last_unknown(data))
    test = trained.outputs["test"]
    assert_array_equal(test.labels, cut.test.labels)
    assert_array_equal(test.groups, cut.test.groups)
    assert test.classes == cut.train.classes
    n_train = len(trained.outputs["train"]) + len(trained.outputs["validation"])
    assert n_train == len(cut.train)
    kind = methods.find(method)
    for part in trained.outputs.values():
        assert part.logits.shape == (len(part), 3)
        if kind.has_linear_head:
            linear = part.features @ part.weight.T + part.bias
            assert_allclose(part.logits, linear, rtol=1e-4, atol=1e-5)
        else:
            assert part.weight is None
    top = test.logits.max(axis=1)
    assert_allclose(trained.scores["maxlogit"].known, top, rtol=1e-6)
    rules = {"maxlogit": top, "msp": softmax(test.logits, axis=1).max(axis=1)}
    if kind.score in rules:
        assert_allclose(trained.scores["published"].known, rules[kind.score], rtol=1e-5)
    for scores in trained.scores.values():
        assert_array_equal(scores.predicted, test.logits.argmax(axis=1))
        assert_array_equal(scores.labels, test.labels)
        assert_array_equal(scores.groups, test.groups)
    assert [line["epoch"] for line in trained.log] == list(range(len(trained.log)))
    for line in trained.log:
        assert math.isfinite(line["loss"])
        assert 0 <= line["accuracy"] <= 1


@pytest.mark.parametrize("method", ["ceplus", "gcpl", "openauc", "overlay"])
def test_methods_train_on_images_with_augmentation(method):
    data = image_data()
    trained = fit_tiny(data, method=method, network="osrci", recipe="ceplus", epochs=2)
    check_trained(trained, data, method)


@pytest.mark.parametrize("network", [image_network(3), "osrci"], ids=["own", "osrci"])
def test_confusing_samples_train_through_all_their_updates(network):
    data = image_data(side=32)
    same = {"method": "arpl_cs", "network": network, "batch": 8, "options": NARROW}
    trained = fit_tiny(data, epochs=2, **same)
    check_trained(trained, data, "arpl_cs")
    fresh = fit_tiny(data, epochs=1, lr=1e-9, **same)
    moved, still = weights(trained), weights(fresh)
    for part in ("method.generator.0.weight", "method.discriminator.0.weight"):
        assert not torch.equal(moved[part], still[part])


def described(data, **changes):
    usual = {"recipe": "ceplus", "epochs": 2, "batch": 8}
    return Job.of(data=data, **(usual | {"protocol": last_unknown(data)} | changes))


def test_images_are_generated_in_the_size_of_the_real_ones():
    for side, pipeline in ((64, {}), (32, {"side": 32})):
        how = {"method": "arpl_cs", "recipe": "torchosr", **pipeline}
        (prepared,) = plans([described(image_data(side=64), **how)], "32-true")
        example = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
        made = make_learner(prepared.spec, "classifier32", example)
        assert made.method.side == side
    with pytest.raises(ValueError, match=r"arpl_cs: side must be 32 or 64, got 28\."):
        fit_tiny(image_data(side=28), method="arpl_cs")


def test_several_test_splits_give_outputs_each_and_scores_of_all():
    data = rows_data()
    usual = last_unknown(data)
    trained = fit_tiny(data, protocol=replace(usual, n_tests=2), epochs=1)
    sizes = [len(trained.outputs[f"test{i}"]) for i in range(2)]
    assert sum(sizes) == len(trained.scores["published"].labels) == 60


def test_a_table_sorted_by_class_is_standardised_as_a_whole():
    # The last column is constant in the first class, which fills the first 600 rows.
    labels = np.repeat([0, 1, 2], [600, 40, 4])
    rows = np.random.default_rng(0).normal(size=(644, 3)).astype(np.float32)
    rows[:, 2] = labels
    data = replace(
        rows_data(n_classes=3), inputs=np.tile(rows, (2, 1)), labels=np.tile(labels, 2),
        parts={"train": np.arange(644), "test": np.arange(644, 1288)},
    )  # fmt: skip
    trained = fit_tiny(data, epochs=1, validation=0)
    standard = trained.learner.network.backbone.standard
    known = rows[labels < 2]
    assert_allclose(standard.mean.numpy(), known.mean(axis=0), rtol=1e-4, atol=1e-6)
    assert_allclose(standard.scale.numpy(), 1 / known.std(axis=0), rtol=1e-4)


IMAGES = {"data": image_data(), "network": "osrci", "recipe": "ceplus", "epochs": 2}


@pytest.mark.parametrize("usual", [{}, IMAGES], ids=["rows", "augmented and dropped"])
def test_the_same_seed_gives_the_same_weights_and_another_one_others(usual):
    first, second, other = (fit_tiny(seed=seed, **usual) for seed in (5, 5, 6))
    assert_same(first, second)
    name = "network.head.weight"
    assert not torch.equal(weights(other)[name], weights(first)[name])


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    fit_tiny(method="proser", epochs=1)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(9)
    with pytest.raises(FloatingPointError):
        fit_tiny(lr=1e38)
    assert torch.equal(torch.rand(3), expected)


def test_runs_that_take_turns_get_the_weights_they_get_alone(tmp_path):
    images, rows = image_data(), rows_data()
    runs = [
        {"data": images, "method": "openauc", "network": "osrci"},
        {"data": images, "method": "openauc", "network": "osrci", "seed": 1},
        {"data": rows, "method": "arpl", "epochs": 3},  # another length
    ]
    jobs = [described(**run, out=tmp_path / str(i)) for i, run in enumerate(runs)]
    together = fit_jobs(jobs, CPU)
    for run, trained in zip(runs, together, strict=True):
        (alone,) = fit_jobs([described(**run)], CPU)
        assert_same(alone, trained)


def test_a_finished_run_among_several_is_read_and_keeps_its_place(tmp_path):
    data = rows_data()
    jobs = [
        described(data, method="softmax", seed=seed, out=tmp_path / str(seed))
        for seed in range(3)
    ]
    (first,) = fit_jobs(jobs[1:2], CPU)
    trained = fit_jobs(jobs, CPU)
    assert trained[1].log == first.log
    assert [one.spec["seed"] for one in trained] == [0, 1, 2]
    assert [one.learner is None for one in trained] == [False, True, False]


def test_the_updates_are_those_of_a_plain_loop():
    """SGD with momentum and decay, a rate per epoch, all samples once per epoch."""
    data = rows_data()
    torch.manual_seed(1)
    network = rows_network(3)
    made = recipe("arpl", "rows", epochs=4, batch=16, lr=0.1)
    about = {"data": data, "protocol": last_unknown(data), "validation": 0}
    one = Job(method="softmax", network=network, recipe=made, **about)
    (trained,) = fit_jobs([one], CPU)
    cut = datasets.cut(data, last_unknown(data))
    batches = Batches(cut.train, Pipeline(), device=HERE, batch=16, seed=derived(0, 1))
    of_recipe = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
    moved = torch.optim.SGD(network.parameters(), **of_recipe)
    for epoch in range(4):
        for group in moved.param_groups:
            group["lr"] = made.rate(epoch)
        for inputs, labels, _ in batches.epoch(epoch):
            moved.zero_grad()
            nn.functional.cross_entropy(network(inputs), labels).backward()
            moved.step()
    for name, value in network.state_dict().items():
        torch.testing.assert_close(weights(trained)[f"network.{name}"], value)


def test_clean_epochs_train_on_images_without_rand_augment(monkeypatch):
    seen = []
    augment = Pipeline.augment

    def watched(self, images, generator):
        seen.append(self.n_ops)
        return augment(self, images, generator)

    monkeypatch.setattr(Pipeline, "augment", watched)
    fit_tiny(image_data(), network="osrci", recipe="ceplus", epochs=4, clean=0.5)
    assert seen == [1, 1, 0, 0]


def test_curves_are_recorded_and_change_nothing(tmp_path):
    data = image_data()
    usual = {"network": "osrci", "recipe": "ceplus", "epochs": 3}
    plain = fit_tiny(data, **usual)
    watched = fit_tiny(data, curves=True, out=tmp_path, **usual)
    assert_same(plain, watched)
    for line in watched.log:
        for rule in ("published", "maxlogit", "msp"):
            assert 0 <= line[f"test_openauc_{rule}"] <= line["test_accuracy"]
            assert 0 <= line[f"test_auroc_{rule}"] <= 1
    last = watched.log[-1]
    for rule, scores in watched.scores.items():
        assert last[f"test_openauc_{rule}"] == metrics.openauc(scores)
        assert last[f"test_auroc_{rule}"] == metrics.auroc(scores)
    assert last["test_accuracy"] == metrics.accuracy(watched.scores["published"])
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == watched.log
    assert "test_accuracy" not in plain.log[0]


def test_each_record_of_the_log_is_given_to_a_function_as_it_is_made():
    seen = []
    trained = fit_tiny(title="one", on_epoch=lambda *given: seen.append(given))
    assert seen == [("one", line) for line in trained.log]


def test_a_loss_that_explodes_stops_the_run_and_leaves_no_result(tmp_path):
    said = r"the loss of arpl rows seed 0 \(weight=1e\+30\) must be finite .*lower"
    with pytest.raises(FloatingPointError, match=said):
        fit_tiny(method="arpl", options={"weight": 1e30}, out=tmp_path)
    assert not (tmp_path / "trained.json").exists()


def test_weights_that_explode_in_the_last_update_are_not_kept(tmp_path, monkeypatch):
    # The only batch's loss is taken before its update.
    monkeypatch.setattr(recipes.Recipe, "rate", lambda *_: math.inf)
    for _ in range(2):  # the second does not take up what the first left
        with pytest.raises(FloatingPointError, match=r"the weights of .*lower learn"):
            fit_tiny(batch=64, epochs=1, out=tmp_path)
    assert not (tmp_path / "checkpoint.pt").exists()


def test_runs_that_would_write_over_each_other_are_refused(tmp_path):
    jobs = [
        described(rows_data(), method="softmax", seed=seed, out=tmp_path)
        for seed in range(2)
    ]
    with pytest.raises(ValueError, match="must be another folder for each run, got"):
        fit_jobs(jobs, CPU)
