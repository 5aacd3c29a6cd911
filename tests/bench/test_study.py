"""Study files: what they hold, and what is refused before anything runs."""

import pytest

from openset import bench
from openset.bench import parse
from tests.bench.studies import SMALL

SAVED = b"outputs: [{name: a, path: b}]\ndetectors: [msp]\n"


def test_names_are_made_of_what_is_given():
    made = parse(b"""
protocols:
- {kind: holdout, data: digits, known: 6, unknown: 4}
- {kind: outlier, data: digits, unknown_data: vowel}
- {kind: operational, data: digits, known: 5, surrogate: 2, unknown: 3}
- {kind: published, split_of: mnist}
- {kind: classes, data: vowel, known: all, unknown: [1], name: mine}
- {kind: file, path: here/p.json, data: digits}
models: [{kind: mlp}, {kind: sklearn, estimator: sklearn.svm.SVC}]
detectors: [msp, {name: knn, k: 3}, {name: knn, label: nearest}]
seeds: 2
""")
    titles = {
        part: " | ".join(one.title for one in getattr(made, part))
        for part in ("protocols", "models", "detectors")
    }
    drawn = "digits 6/4 | digits → vowel | digits 5/2/3 | mnist | mine | here/p.json"
    detectors = "msp | knn(k=3) | nearest"
    assert titles == {"protocols": drawn, "models": "mlp | SVC", "detectors": detectors}
    assert made.seeds == [0, 1]
    assert made.protocols[2].n_tests == 1  # splits share a network: never by default


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"known: 6", b"knwon: 6", "knwon"),
        (b"known: 6", b"known: '6'", "valid integer"),
        (b"kind: holdout", b"kind: holdut", "'holdout'"),
        (b"[msp,", b"[mspp,", "Did you mean 'msp'"),
        (b"k: 3", b"k: 0", "k must be an integer >= 1"),
        (b"k: 3", b"kk: 3", "kk"),
        (b"energy,", b"msp,", "detectors must be of different names"),
        (b"surrogate: mixup", b"surrogate: mixop", "'left-out'"),
        (b"surrogate: mixup", b"objective: best", "objective must be one of"),
        (b"surrogate: mixup", b"alpha: 0.5", "none without surrogate classes"),
        (b"surrogate: mixup", b"surrogate: left-out", "sees only features"),
        (b"surrogate: mixup", b"objective: published", "msp was published without"),
        (
            b"kind: mlp, hidden: 8, epochs: 5",
            b"kind: sklearn, estimator: os.system",
            "a classifier of scikit-learn",
        ),
        (b"models:", b"metrics: [aurok]\nmodels:", "Did you mean 'auroc'"),
        (b"models:", b"models: [", "line"),
    ],
)
def test_mistakes_are_said_with_their_file(tmp_path, old, new, words):
    assert old in SMALL
    (tmp_path / "my.yaml").write_bytes(SMALL.replace(old, new))
    with pytest.raises((ValueError, TypeError)) as caught:
        bench.read(tmp_path / "my.yaml")
    text = "\n".join([str(caught.value), *caught.value.__notes__])
    assert words in text
    assert "my.yaml" in text


def test_a_study_has_cells_and_what_its_metrics_need():
    with pytest.raises(ValueError, match="where calibrate is not given"):
        parse(SAVED + b"metrics: [osa]")
    bare = SMALL.replace(b"[msp, energy, {name: knn, k: 3}]", b"[published]")
    for text in (b"detectors: [msp]", bare):  # the second has no network
        with pytest.raises(ValueError, match="study must be with cells"):
            bench.plan(parse(text))


def test_plug_ins_are_found_beside_the_study(tmp_path):
    (tmp_path / "beside.py").write_text(
        "from openset.detectors import MSP\n\n\nclass Beside(MSP):\n    name = 'beside'"
    )
    text = SAVED.replace(b"msp", b"'beside:Beside'")
    assert parse(text, tmp_path).detectors[0].name == "beside:Beside"
    with pytest.raises(ImportError, match="beside2"):
        parse(text.replace(b"beside:", b"beside2:"), tmp_path)
