"""Files of scores by a pattern: fields, repeats, and what is refused."""

from itertools import product

import numpy as np
import pytest

from openset import Scores, evaluate, stats
from openset.stats import score_files


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


FOUND = [  # files, patterns, (protocol, method, repeat, seed) of what is found
    (
        [f"{m}_{d}_seed{s}.npz" for m in "ab" for d in "xy" for s in (2, 10)],
        ["{net}_{detector}_seed{seed}.npz"],
        [("", f"{m} · {d}", 0, s) for m in "ab" for d in "xy" for s in (2, 10)],
    ),
    (["a_seed_b_seed0.csv"], ["{method}_seed{seed}.csv"], [("", "a_seed_b", 0, 0)]),
    (["0_my_net.csv"], ["{seed}_{method}.csv"], [("", "my_net", 0, 0)]),
    (
        [f"fold-{f}/{s}/m.npz" for f, s in product("ba", "01")],
        ["fold-{fold}/{seed}/{method}.npz"],
        [("", "m", f, s) for f in (0, 1) for s in (0, 1)],
    ),
    (
        [f"{fold}/m.npz" for fold in ("10", "9", "x")],  # not all are numbers
        ["{fold}/{method}.npz"],
        [("", "m", i, 0) for i in range(3)],
    ),
    (["a/a_0.npz", "a/b_0.npz"], ["{method}/{method}_{seed}.npz"], [("", "a", 0, 0)]),
    (["[a]+b_0.npz", "a_0.npz"], ["[a]+{method}_{seed}.npz"], [("", "b", 0, 0)]),
    (
        [f"{m}_seed{s}.npz" for m in ("msp", "knn") for s in (0, 1)],
        ["msp_seed{seed}.npz", "knn_seed{seed}.npz"],
        [("", m, 0, s) for m in ("knn", "msp") for s in (0, 1)],
    ),
    (
        ["near/a_0.npz", "far/a_1.npz"],
        ["{protocol}/{method}_{seed}.npz"],
        [("far", "a", 0, 1), ("near", "a", 0, 0)],
    ),
]


@pytest.mark.parametrize(("files", "patterns", "wanted"), FOUND)
def test_fields_name_methods_protocols_and_repeats(tmp_path, files, patterns, wanted):
    touch(tmp_path, *files, "notes.txt", "a_x_seed.npz")
    found = score_files.find([tmp_path / pattern for pattern in patterns])
    assert [(f.protocol, f.method, f.repeat, f.seed) for f in found] == wanted
    assert all(one.has_repeats for one in found)


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (["x/{method}_{seed}.npz", "y/{method}_{seed}.npz"], "one file per method and"),
        (["{method}-{seed}.csv"], r"a pattern that matches files, got .*-\{seed\}"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, patterns, words):
    touch(tmp_path, "msp_0.csv", "x/a_0.npz", "y/a_0.npz")
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        score_files.find([tmp_path / pattern for pattern in patterns])


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
    board = stats.leaderboard(results, ["auroc", "fpr_at_tpr"])
    assert board.rows == ("knn", "msp", "my_net")
    assert board.entries["knn", "auroc"].n == 4
    with pytest.raises(
        ValueError, match="read_results: metric must be one that needs no threshold"
    ):
        stats.read_results(files, "osa", **OPTIONS)


def test_other_samples_in_one_repeat_are_refused(files):
    path = files.parent / "knn_seed2.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match=r"must be of the same samples as .*knn_seed2"):
        stats.read_results(files, **OPTIONS)


def test_samples_of_one_repeat_are_told_by_their_ids(tmp_path):
    rows = {"labels": [0, 0, -1], "predicted": [0, 0, 0], "known": [3, 1, 2]}
    one, other = (Scores(**rows, ids=list(ids)) for ids in ("xyz", "xyw"))
    parts = {"a": one, "b": one.take([2, 0, 1]), "c": other, "d": Scores(**rows)}
    for name, scores in parts.items():
        scores.save(tmp_path / f"{name}_0.npz")
    at = {name: tmp_path / f"{name}_{{seed}}.npz" for name in "abcd"}
    for other in "bd":  # in whatever order, or without ids
        for two in ([at["a"], at[other]], [at[other], at["a"]]):
            assert len(stats.read_results(two, "auroc")) == 2
    with pytest.raises(ValueError, match=r"as .*a_0.npz, got 1 missing ids such as"):
        stats.read_results([at["a"], at["c"]], "auroc")
