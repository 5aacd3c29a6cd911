"""Options are chosen on held-out known classes, by runs like the real one."""

from importlib import import_module

import pytest

from openset import datasets, metrics, train
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
    about = {"method": "arpl", "data": data, "protocol": last_unknown(data)}
    how = {"options": {"smoothing": 0.1}, "epochs": 3, "devices": 2}
    with pytest.raises(InterruptedError):
        train.tune(grid={"weight": [0.1, 0.2]}, **about, **how)
    assert len(seen) == 4
    for job, execution in seen:
        assert (job.recipe.epochs, execution.devices) == (3, 2)
        assert job.options["smoothing"] == 0.1
        assert set(job.data.train.classes) < set(last_unknown(data).known)
        assert set(job.data.test.groups) <= set(last_unknown(data).known)
    assert [job.options["weight"] for job, _ in seen] == [0.1, 0.1, 0.2, 0.2]


def test_fields_of_the_recipe_are_tuned_like_options(seen):
    data = image_data(n_classes=5)
    about = {"method": "openauc", "data": data, "protocol": last_unknown(data)}
    how = {"options": {"alpha": 1}, "budget": 30, "lr": 0.01, "draws": 1}
    grid = {"recipe": ["ceplus", "openset"], "auxiliary": ["none", "rotation"]}
    with pytest.raises(InterruptedError):
        train.tune(grid=grid | {"weight": [0.1, 0.2]}, **about, **how)
    expected = [
        (name, auxiliary, weight, 30 if auxiliary == "none" else 20, decay)
        for name, decay in (("ceplus", 1e-4), ("openset", 5e-4))
        for auxiliary in ("none", "rotation")
        for weight in (0.1, 0.2)
    ]
    for (job, _), (*of_job, epochs, decay) in zip(seen, expected, strict=True):
        made, options = job.recipe, job.options
        assert [made.name, made.auxiliary, options["weight"]] == of_job
        assert (made.epochs, made.weight_decay) == (epochs, decay)
        assert (made.lr, options["alpha"]) == (0.01, 1)


def test_recipes_of_inner_problems_have_the_constants_of_the_real_one(seen):
    data = image_data(n=60, n_classes=10, name="svhn")
    about = {"method": "ceplus", "data": data, "protocol": last_unknown(data)}
    with pytest.raises(InterruptedError):
        train.tune(grid={"clean": [0, 0.1]}, **about)
    for job, _ in seen:
        assert job.recipe.pipeline == recipe("ceplus", "svhn").pipeline


def test_the_best_combination_is_what_a_job_gets(monkeypatch):
    data = rows_data()
    values = iter([0.1, 0.4, 0.3, 0.2])
    monkeypatch.setattr(metrics, "openauc", lambda _: next(values))
    usual = {"method": "softmax", "data": data, "protocol": last_unknown(data)}
    changes = {"epochs": 1, "batch": 16}
    grid = {"recipe": ["torchosr", "arpl"], "lr": [0.01, 0.02]}
    how = {"recipe": "torchosr", "options": {"smoothing": 0.1}, "draws": 1}
    where = {"accelerator": "cpu", "progress": False}
    tuned = train.tune(grid=grid, **usual, **how, **where, **changes)
    job = tuned.apply(train.Job.of(**usual, out="somewhere", seed=3))
    assert (job.recipe, job.changes) == ("torchosr", changes | {"lr": 0.02})
    assert (job.options, job.seed, job.out) == ({"smoothing": 0.1}, 3, "somewhere")
    assert [row["openauc"] for row in tuned.table] == [0.1, 0.4, 0.3, 0.2]
