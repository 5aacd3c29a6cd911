"""`openset bench`: studies, and benchmarks by name."""

import pytest

from openset import runs
from openset.bench import named
from openset.results import Results
from tests.bench.made_outputs import made
from tests.bench.studies import SMALL

TREE = b"{kind: sklearn, estimator: sklearn.tree.DecisionTreeClassifier}"


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_bytes(SMALL)
    return path


def test_a_study_is_planned_run_in_parts_and_continued(run, study, tmp_path):
    out = tmp_path / "run"
    assert "6 cells on 2 networks, 0 finished" in run("bench", study, "--dry-run")
    assert not out.exists()
    words = ("bench", study, "--out", out, "--jobs", 1)
    text = run(*words, "--shard", "1/2")
    assert "3 of 3 cells" in text
    assert "run the command without --shard" in text
    text = run(*words)
    assert "6 of 6 cells" in text
    assert "knn(k=3)" in text
    assert (out / "study.yaml").read_bytes() == SMALL
    assert len(runs.results(out).where(metric="openauc")) == 6
    assert "6 finished" in run(*words, "--dry-run")


def test_a_failing_cell_makes_the_exit_code_one(run, study, tmp_path):
    text = SMALL.replace(b"{kind: mlp, hidden: 8, epochs: 5}", TREE)
    study.write_bytes(text.replace(b"[msp,", b"[vim, msp,"))
    words = ("bench", study, "--out", tmp_path / "run", "--jobs", 1)
    said = run(*words, code=1, stream="stderr")
    assert "outputs must have head" in said
    assert "model DecisionTreeClassifier, detector vim, seed 0" in said


def test_benchmarks_are_listed_and_described(run):
    listed = run("bench", "--list")
    assert all(name in listed for name in named.names())
    shown = run("bench", "openood:imagenet")
    assert "csid/imagenet_v2.npz" in shown
    assert "--list openood" not in shown
    shown = " ".join(run("bench", "openood:cifar10").split())
    assert "7793 of TinyImageNet" in shown
    assert "--list openood:cifar10/near/tin" in shown


def test_outputs_are_scored_beside_published_rows(run, tmp_path):
    folder = made(tmp_path / "net", named.load("openood:cifar10"))
    out = tmp_path / "run"
    text = run(
        "bench", "openood:cifar10", "--outputs", folder, "--out", out, "-d", "knn:k=3"
    )
    assert max(map(len, text.partition("In percent")[0].splitlines())) <= 80
    for said in ("knn:k=3", "88.03", "places365"):  # MSP, near, published
        assert said in text
    results = Results.load(out / "results.csv")
    files = named.load("openood:cifar10").files()[1:]
    assert {row.protocol for row in results} == {
        "openood:cifar10", *(f"openood:cifar10/{file}" for file in files)
    }  # fmt: skip
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "| MSP, published | 88.03 | 90.73 |" in table
