"""Files of scores by a pattern: fields, repeats, and what is refused."""

from itertools import product

import numpy as np
import pytest

from openset import Scores, evaluate, score_files, stats


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def found(pattern):
    return [(one.method, one.repeat, one.seed) for one in score_files.find(pattern)]


def test_seeds_are_repeats_and_other_fields_name_the_method(tmp_path):
    names = [f"{m}_{d}_seed{s}.npz" for m in "ab" for d in "xy" for s in (2, 10)]
    touch(tmp_path, *names, "notes.txt", "a_x_seed.npz")
    methods = ["a · x", "a · y", "b · x", "b · y"]
    assert found(tmp_path / "{net}_{detector}_seed{seed}.npz") == [
        (method, 0, seed) for method in methods for seed in (2, 10)
    ]


def test_a_name_may_hold_the_text_around_it(tmp_path):
    touch(tmp_path, "a_seed_b_seed0.csv", "0_my_net.txt")
    assert found(tmp_path / "{method}_seed{seed}.csv") == [("a_seed_b", 0, 0)]
    assert found(tmp_path / "{seed}_{method}.txt") == [("my_net", 0, 0)]


def test_folds_are_repeats_beside_seeds_and_need_not_be_numbers(tmp_path):
    touch(tmp_path, *(f"fold-{f}/{s}/m.npz" for f, s in product("ba", "01")))
    one, *_ = files = score_files.find(tmp_path / "fold-{fold}/{seed}/{method}.npz")
    assert [(f.repeat, f.seed) for f in files] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert one.fields == {"fold": "a", "seed": "0"}
    assert str(one) == "m, fold a seed 0"


def test_a_field_given_twice_has_one_value(tmp_path):
    touch(tmp_path, "a/a_0.npz", "a/b_0.npz")
    assert found(tmp_path / "{method}/{method}_{seed}.npz") == [("a", 0, 0)]


def test_signs_of_globs_and_expressions_are_plain_text(tmp_path):
    touch(tmp_path, "[a]+b_0.npz", "a_0.npz")
    assert found(tmp_path / "[a]+{method}_{seed}.npz") == [("b", 0, 0)]


def test_several_patterns_without_a_method_are_named_by_the_file(tmp_path):
    touch(tmp_path, *(f"{m}_seed{s}.npz" for m in ("msp", "knn") for s in (0, 1)))
    patterns = [tmp_path / f"{m}_seed{{seed}}.npz" for m in ("msp", "knn")]
    assert found(patterns) == [
        (method, 0, seed) for method in ("knn", "msp") for seed in (0, 1)
    ]


def test_a_missing_seed_is_named(tmp_path):
    touch(tmp_path, "msp_0.npz", "msp_1.npz", "knn_0.npz")
    with pytest.raises(ValueError, match=r"no file of knn, seed 1, but .*msp_1\.npz"):
        score_files.find(tmp_path / "{method}_{seed}.npz")


def test_protocols_may_have_different_repeats(tmp_path):
    touch(tmp_path, "near/a_0.npz", "near/b_0.npz", "far/a_1.npz", "far/b_1.npz")
    files = score_files.find(tmp_path / "{protocol}/{method}_{seed}.npz")
    assert [(f.protocol, f.method, f.seed) for f in files] == [
        ("far", "a", 1), ("far", "b", 1), ("near", "a", 0), ("near", "b", 0),
    ]  # fmt: skip


def test_two_files_of_one_repeat_are_refused(tmp_path):
    touch(tmp_path, "x/a_0.npz", "y/a_0.npz")
    patterns = [tmp_path / f"{folder}/{{method}}_{{seed}}.npz" for folder in "xy"]
    with pytest.raises(ValueError, match="one file per method and repeat"):
        score_files.find(patterns)


def test_a_pattern_that_matches_nothing_shows_what_is_there(tmp_path):
    touch(tmp_path, "msp-0.csv")
    with pytest.raises(FileNotFoundError, match=r"holds msp-0\.csv"):
        score_files.find(tmp_path / "{method}_{seed}.csv")
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        score_files.find(tmp_path / "nowhere" / "{method}.csv")


def test_patterns_with_other_repeats_cannot_be_paired(tmp_path):
    touch(tmp_path, "a_0.npz", "b.npz")
    with pytest.raises(ValueError, match="the same fields for repeats, got seed and"):
        score_files.find([tmp_path / "{method}_{seed}.npz", tmp_path / "{method}.npz"])


@pytest.fixture
def files(tmp_path):
    """Write scores of three methods and four seeds, as other programs do."""
    rng = np.random.default_rng(0)
    for seed in range(4):
        labels = rng.permutation(np.repeat([0, 1, -1], 40))
        for method, noise in (("msp", 0.9), ("knn", 0.3), ("my_net", 1.6)):
            energy = 2.0 * (labels < 0) + rng.normal(size=120) * noise
            order = rng.permutation(120)  # files of one seed may be in any order
            lines = [f"{labels[i]},{max(labels[i], 0)},{energy[i]}" for i in order]
            path = tmp_path / f"{method}_seed{seed}.csv"
            path.write_text("\n".join(["y,predicted,energy", *lines, ""]))
    return tmp_path / "{method}_seed{seed}.csv"


OPTIONS = {"columns": {"labels": "y", "known": "energy"}, "higher_is_unknown": True}


def test_results_are_the_metrics_of_each_file(files):
    results = stats.read_results(files, ["auroc", "fpr_at_tpr"], **OPTIONS)
    assert len(results) == 3 * 4 * 2
    for row in results:
        path = files.parent / f"{row.detector}_seed{row.seed}.csv"
        assert row.value == evaluate(Scores.load(path, **OPTIONS))[row.metric]
    board = stats.leaderboard(results, ["auroc", "fpr_at_tpr"], columns="metric")
    assert board.rows == ("knn", "msp", "my_net")
    values = results.where(metric="auroc", detector="knn").column("value")
    entry = board.entries["knn", "auroc"]
    assert entry.n == 4
    assert entry.mean == pytest.approx(values.mean())
    assert entry.spread == pytest.approx(values.std(ddof=1))


def test_other_samples_in_one_repeat_are_refused(files):
    path = files.parent / "knn_seed2.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match=r"must be of the same samples as .*knn_seed2"):
        stats.read_results(files, **OPTIONS)


def test_samples_of_one_repeat_are_told_by_their_ids(tmp_path):
    rows = {"labels": [0, 0, -1], "predicted": [0, 0, 0], "known": [3, 1, 2]}
    ids = {"a": ["x", "y", "y"], "b": ["y", "x", "y"], "c": ["x", "y", "z"]}
    for name, own in ids.items():
        Scores(**rows, ids=own).save(tmp_path / f"{name}_0.npz")
    both = [tmp_path / f"{name}_{{seed}}.npz" for name in "ab"]
    assert len(stats.read_results(both, "auroc")) == 2  # in whatever order
    Scores(**rows).save(tmp_path / "d_0.npz")  # one without ids
    for two in (
        [both[0], tmp_path / "d_{seed}.npz"],
        [tmp_path / "d_{seed}.npz", both[0]],
    ):
        assert len(stats.read_results(two, "auroc")) == 2
    other = [both[0], tmp_path / "c_{seed}.npz"]
    with pytest.raises(ValueError, match=r"as .*a_0.npz, got 1 with other ids \('z'\)"):
        stats.read_results(other, "auroc")


def test_a_metric_that_needs_a_threshold_is_refused(files):
    with pytest.raises(ValueError, match="metric must be one of"):
        stats.read_results(files, "osa", **OPTIONS)
