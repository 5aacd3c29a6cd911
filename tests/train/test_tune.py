"""Options are chosen on held-out known classes, by runs like the real one."""

from importlib import import_module

import pytest

from openset import datasets, metrics, train
from openset.protocols import Protocol
from openset.train import recipe
from tests.train.tiny import image_data, last_unknown, rows_data


def test_nothing_can_be_tuned_with_two_known_classes():
    data = rows_data(n_classes=3)
    cut = datasets.cut(data, last_unknown(data))
    with pytest.raises(ValueError, match=r"n_out must be between 1 and 0"):
        train.tune(method="openauc", data=cut, grid={"weight": [0.1]})


@pytest.fixture
def seen(monkeypatch):
    """Return a list that gets the runs that would be trained."""
    listed = []

    def caught(jobs, execution):
        listed.extend((job, execution) for job in jobs)
        raise InterruptedError

    monkeypatch.setattr(import_module("openset.train.tune"), "fit_jobs", caught)
    return listed


def test_runs_are_those_of_the_real_training_on_other_classes(seen):
    data = rows_data()
    with pytest.raises(InterruptedError):
        train.tune(
            method="arpl",
            data=data,
            protocol=last_unknown(data),
            grid={"weight": [0.1, 0.2]},
            options={"smoothing": 0.1},
            epochs=3,
            devices=2,
        )
    assert len(seen) == 4
    for job, execution in seen:
        assert (job.recipe.epochs, execution.devices) == (3, 2)
        assert job.options["smoothing"] == 0.1
        assert set(job.data.train.classes) < set(last_unknown(data).known)
        assert set(job.data.test.groups) <= set(last_unknown(data).known)
    assert [job.options["weight"] for job, _ in seen] == [0.1, 0.1, 0.2, 0.2]


def test_fields_of_the_recipe_are_tuned_like_options(seen):
    data = image_data(n_classes=5)
    with pytest.raises(InterruptedError):
        train.tune(
            method="openauc",
            data=data,
            protocol=last_unknown(data),
            draws=1,
            grid={
                "recipe": ["ceplus", "openset"],
                "auxiliary": ["none", "rotation"],
                "weight": [0.1, 0.2],
            },
            options={"alpha": 1},
            budget=30,
            lr=0.01,
        )
    found = [
        (
            job.recipe.name,
            job.recipe.auxiliary,
            job.options["weight"],
            job.recipe.epochs,
            job.recipe.weight_decay,
        )
        for job, _ in seen
    ]
    assert found == [
        (name, auxiliary, weight, 30 if auxiliary == "none" else 20, decay)
        for name, decay in (("ceplus", 1e-4), ("openset", 5e-4))
        for auxiliary in ("none", "rotation")
        for weight in (0.1, 0.2)
    ]
    for job, _ in seen:
        assert (job.recipe.lr, job.options["alpha"]) == (0.01, 1)


def test_recipes_of_inner_problems_have_the_constants_of_the_real_one(seen):
    data = image_data(n=60, n_classes=10, name="svhn")
    known = [data.classes[i] for i in (5, 3, 7, 2, 8, 6)]
    unknown = [c for c in data.classes if c not in known]
    protocol = Protocol(known=known, unknown=unknown, source="svhn")
    with pytest.raises(InterruptedError):
        train.tune(
            method="ceplus", data=data, protocol=protocol, grid={"clean": [0, 0.1]}
        )
    for job, _ in seen:
        assert job.recipe.pipeline == recipe("ceplus", "svhn").pipeline


def test_the_best_combination_is_what_a_job_gets(monkeypatch):
    data = rows_data()
    values = iter([0.1, 0.4, 0.3, 0.2])
    monkeypatch.setattr(metrics, "openauc", lambda _: next(values))
    usual = {"method": "softmax", "data": data, "protocol": last_unknown(data)}
    changes = {"epochs": 1, "batch": 16}
    tuned = train.tune(
        **usual,
        recipe="torchosr",
        grid={"recipe": ["torchosr", "arpl"], "lr": [0.01, 0.02]},
        options={"smoothing": 0.1},
        draws=1,
        accelerator="cpu",
        progress=False,
        **changes,
    )
    job = tuned.apply(train.Job.of(**usual, out="somewhere", seed=3))
    assert (job.recipe, job.changes) == ("torchosr", changes | {"lr": 0.02})
    assert (job.options, job.seed, job.out) == ({"smoothing": 0.1}, 3, "somewhere")
    assert [row["openauc"] for row in tuned.table] == [0.1, 0.4, 0.3, 0.2]
