"""Arrays that are plausible and strange: taken for what they mean, or refused."""

from fractions import Fraction

import numpy as np
import pytest

from openset import (
    ArtefactError,
    Outputs,
    Rejector,
    Scores,
    _check,
    detectors,
    thresholds,
)
from openset.metrics import Accumulator
from openset.rejector import SetRule
from openset.watch import Part, Watch, mmd
from tests.extras import pandas

LOGITS = np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
SCORES = {"labels": [0, 1, -1], "predicted": [0, 1, 1], "known": [3.0, 2.0, 1.0]}


@pytest.mark.parametrize("names", [["a", "b", np.nan], ("a", "b", 3), ["a", None, "b"]])
def test_a_missing_name_is_no_group_called_nan(names):
    with pytest.raises(TypeError, match="groups must be"):
        Scores(**SCORES, groups=names)
    with pytest.raises(TypeError, match="ids must be"):
        Outputs(logits=LOGITS, ids=names)


def test_what_is_below_a_mask_is_neither_a_group_nor_a_row():
    masked = np.ma.array([0, 1, 2], mask=[False, True, False])
    with pytest.raises(ValueError, match="groups must be free of masked values"):
        Scores(**SCORES, groups=masked)
    with pytest.raises(ValueError, match="rows must be free of masked values"):
        Scores(**SCORES).take(masked)
    with pytest.raises(ValueError, match="rows must be free of masked values"):
        Outputs(logits=LOGITS).take(masked)


@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64])
def test_a_rate_in_single_precision_is_the_rate_that_was_meant(kind):
    scores = Scores(labels=[-1] * 20, predicted=[0] * 20, known=range(20))
    for percent in range(0, 101, 5):
        wanted = thresholds.at_fpr(scores, percent / 100).value
        assert thresholds.at_fpr(scores, kind(percent / 100)).value == wanted
    assert _check.fraction(kind(1) / kind(3)) == Fraction(1, 3)


def test_names_that_are_integers_with_and_without_a_sign_are_not_rounded():
    big = np.array([2**53 + 1], dtype=np.uint64)
    parts = [
        Outputs(logits=LOGITS[:1], ids=names, groups=names)
        for names in (big, np.array([7]))
    ]
    joined = Outputs.concat(parts)
    assert joined.ids.tolist() == joined.groups.tolist() == [str(2**53 + 1), "7"]
    one = {"labels": [0], "predicted": [0], "known": [1.0]}
    scores = [Scores(**one, groups=names) for names in (big, np.array([7]))]
    assert Scores.concat(scores).groups.tolist() == [str(2**53 + 1), "7"]
    found = Accumulator()
    found.update(Scores(**one), ids=big)
    found.update(Scores(**one), ids=[2**53])  # as floats, the same number
    assert len(found.scores()) == 2


@pytest.mark.parametrize("what", ["labels", "ids"])
def test_layers_of_samples_in_another_order_are_not_put_together(what):
    one = Outputs(logits=LOGITS, features=LOGITS, **{what: [0, 1, 1]})
    with pytest.raises(ValueError, match=f"'b' must be .* got other {what}"):
        Outputs.of_layers({"a": one, "b": one.take([2, 1, 0])})
    assert len(Outputs.of_layers({"a": one, "b": one}).layers) == 2


def test_sets_know_logits_that_are_infinite():
    logits = np.array([[5.0, 1.0, 0.0]] * 6 + [[np.inf, 1.0, 0.0]] * 6)
    labels = np.zeros(12, dtype=int)
    rule = SetRule.calibrate(logits, labels, coverage=0.9)
    finite = np.where(np.isinf(logits), 1000.0, logits)
    assert rule == SetRule.calibrate(finite, labels, coverage=0.9)
    all_classes = SetRule.calibrate(logits[:1], [0], coverage=0.9)
    assert all_classes.contains([[np.inf, 0.0, 0.0], [-np.inf] * 3]).all()
    both = rule.contains([[np.inf, np.inf, 0.0]])
    assert both.tolist() == rule.contains([[1000.0, 1000.0, 0.0]]).tolist()


def test_sets_are_not_calibrated_on_unknown_samples():
    with pytest.raises(ValueError, match=r"labels must be >= 0"):
        SetRule.calibrate(LOGITS, [0, 1, -1])


def test_a_watch_keeps_features_that_its_caller_writes_over():
    rng = np.random.default_rng(0)
    n, features = 60, rng.normal(size=(60, 3))
    reference = Scores(labels=[0] * n, predicted=[0] * n, known=np.arange(n))
    threshold = thresholds.at_tpr(reference)
    mine = features.copy()
    watch = Watch(threshold, reference, features=mine, against="all")
    mine += 100
    assert not watch.check(reference, features=features).is_alarm

    def parts(buffer):
        for start in range(0, n, 20):
            rows = slice(start, start + 20)
            buffer[:] = features[rows]
            yield Part(reference.take(rows), buffer)

    found = list(watch.stream(parts(np.empty((20, 3))), 30))
    for verdict, rows in zip(found, (slice(30), slice(30, 60)), strict=True):
        own = watch.check(reference.take(rows), features=features[rows])
        assert verdict.features == own.features
    masked = np.ma.array(features, mask=features > 1)
    with pytest.raises(ValueError, match="features must be free of masked values"):
        watch.check(reference, features=masked)
    with pytest.raises(ValueError, match="new must be free of masked values"):
        mmd(features, masked)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_minus_one_that_lost_its_sign_is_no_class(kind):
    labels = np.array([0, 1, -1]).astype(kind)
    others = {"predicted": [0, 1, 1], "known": [3.0, 2.0, 1.0]}
    top = int(labels[-1])
    with pytest.raises(ValueError, match=f"labels must be .*, got {top}, which is -1"):
        Scores(labels=labels, **others)
    assert Scores(labels=labels, **others, unknown_label=top).n_unknown == 1
    assert Scores(labels=labels, **others, n_classes=top + 1).n_unknown == 0
    with pytest.raises(ValueError, match=f"labels must be .*, got {top}, which is -1"):
        Outputs(features=LOGITS, labels=labels)


def test_labels_of_256_classes_fit_into_8_bits():
    every = np.arange(256, dtype=np.uint8)
    scores = Scores(labels=every, predicted=every, known=np.zeros(256))
    assert scores.n_unknown == 0
    assert Outputs(features=np.ones((256, 1)), labels=every).labels.max() == 255


def test_rows_of_pandas_in_another_order_do_not_belong_together():
    columns = {n: pandas.Series(v, index=["x", "y", "z"]) for n, v in SCORES.items()}
    assert Scores(**columns).n_known == 2
    sorted_by_score = columns["known"].sort_values()
    with pytest.raises(ValueError, match="known must be in the order of labels"):
        Scores(**columns | {"known": sorted_by_score})
    Scores(**columns | {"known": sorted_by_score.to_numpy()})
    Scores(**columns | {"known": sorted_by_score.reset_index(drop=True)})
    table = pandas.DataFrame(LOGITS, index=["z", "y", "x"])
    with pytest.raises(ValueError, match="labels must be in the order of logits"):
        Outputs(logits=table, labels=columns["labels"])
    Outputs(logits=table.loc[["x", "y", "z"]], labels=columns["labels"])


def test_what_a_rejector_shows_of_its_calibration_cannot_be_written_over():
    features = np.repeat(LOGITS[:2], 20, axis=0)
    known = Outputs(logits=features, features=features, labels=[0] * 20 + [1] * 20)
    rejector = Rejector.calibrate(
        detectors.MaxLogit().fit(known),
        known=known,
        surrogate=Outputs(logits=features / 10, features=features),
    )
    kept = [*rejector.reference.values(), rejector.reference_features]
    assert len(kept) == 3
    for array in kept:
        with pytest.raises(ValueError, match="read-only"):
            array.sort(axis=0)


def test_classes_that_are_one_number_stay_two_classes(tmp_path):
    codes = Scores(**SCORES, class_names=["01", "1"])
    path = codes.take([0, 1]).save(tmp_path / "scores.csv")
    with pytest.raises(ArtefactError, match="in one way, got '01' and '1'"):
        Scores.load(path)
    codes.save(tmp_path / "scores.npz")
    assert Scores.load(tmp_path / "scores.npz").class_names == ("01", "1")
    path.write_text("labels,predicted,known\n01,1,3.0\n02, 2,1.0\n-1,1,0.0\n")
    assert Scores.load(path).is_correct.tolist() == [True, True, False]


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_odd_names_of_groups_are_read_as_they_were_written(tmp_path, ending):
    names = ["a,b", 'q"t', " x ", "ü", "a\nb", "a\rb", "a\r\nb", "nan", "", "#x", "\t"]
    n = len(names)
    scores = Scores(labels=[0] * n, predicted=[0] * n, known=range(n), groups=names)
    path = scores.save(tmp_path / f"scores.{ending}")
    assert Scores.load(path).groups.tolist() == names
