"""Options are chosen on held-out known classes, by runs like the real one."""

import pytest

from openset import datasets, train
from openset.train import recipe, tuning
from tests.unit.train.tiny import last_unknown, rows_data


def test_nothing_can_be_tuned_with_two_known_classes():
    data = rows_data(n_classes=3)
    cut = datasets.cut(data, last_unknown(data))
    with pytest.raises(
        ValueError, match=r"data must be of 3 known classes or more.*got 2"
    ):
        train.tune(method="openauc", data=cut, grid={"weight": [0.1]})
    with pytest.raises(ValueError, match="grid must be options with a list of values"):
        train.tune(method="openauc", data=cut, grid={"weight": 0.1})


def test_what_cannot_be_tuned_is_refused():
    data = rows_data()
    cut = datasets.cut(data, last_unknown(data))
    with pytest.raises(ValueError, match=r"tune: grid must be .*got \['weight'\]"):
        train.tune(method="arpl", data=cut, grid=["weight"])
    with pytest.raises(ValueError, match=r"n_out must be between 1 and 1: two of the"):
        train.tune(method="arpl", data=cut, grid={"weight": [0.1]}, n_out=2)
    with pytest.raises(ValueError, match="epochs must be given only with a recipe by"):
        train.tune(
            method="arpl",
            data=cut,
            grid={"weight": [0.1]},
            recipe=recipe("torchosr"),
            epochs=1,
        )


def test_runs_are_those_of_the_real_training_on_other_classes(monkeypatch):
    seen = []

    def caught(jobs, execution):
        seen.extend((job, execution) for job in jobs)
        raise InterruptedError

    monkeypatch.setattr(tuning, "fit_jobs", caught)
    data = rows_data()
    with pytest.raises(InterruptedError):
        train.tune(
            method="arpl",
            data=data,
            protocol=last_unknown(data),
            grid={"weight": [0.1, 0.2]},
            options={"smoothing": 0.1},
            accumulate=4,
            epochs=3,
            devices=2,
        )
    assert len(seen) == 4
    for job, execution in seen:
        assert (job.accumulate, job.recipe.epochs, execution.devices) == (4, 3, 2)
        assert job.options["smoothing"] == 0.1
        assert set(job.data.train.classes) < set(last_unknown(data).known)
        assert set(job.data.test.groups) <= set(last_unknown(data).known)
    assert [job.options["weight"] for job, _ in seen] == [0.1, 0.1, 0.2, 0.2]
