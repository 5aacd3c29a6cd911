"""The rejector: decisions, also about invalid samples, and what they are told as."""

import csv
import io
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import InvalidSamplesError, Outputs, Rejector, detectors
from openset.outputs import replaced
from tests.rejector.data import calibrated, drawn

INF, NAN = np.inf, np.nan
STEP = "odin:temperature=1000.0,epsilon=0.0014"
NEW = drawn(61, seed=5, labelled=False)
ROW = 23


def rejector_of(name, **options):
    options = {"objective": "at_tpr", "accept_risk": True, "surrogate": None} | options
    return calibrated(detectors.make(name).fit(drawn(150, seed=1)), **options)


@pytest.fixture(scope="module")
def rejector():
    return calibrated(detectors.PostMax().fit(drawn(300, seed=1)))


def test_decisions_are_the_class_or_minus_one(rejector):
    known = rejector.fitted.known(NEW)
    accepted = known >= rejector.threshold.value
    expected = np.where(accepted, NEW.logits.argmax(axis=1), -1)
    found = rejector.decide(NEW)
    assert found.labels.dtype == np.int64
    assert_array_equal(found.labels, expected)
    assert_array_equal(found.is_rejected, ~accepted)
    assert_array_equal(found.known, known)
    assert_array_equal(rejector.known(NEW), known)
    assert_array_equal(rejector.score(NEW).known, known)
    assert_array_equal(rejector.predict(NEW), expected)
    assert_array_equal(rejector.predict(drawn(61, seed=5)), expected)  # with labels
    assert 0 < found.n_rejected < 61
    assert (rejector.decide(NEW, threshold=-INF).labels >= 0).all()
    assert repr(rejector).startswith("Rejector(PostMax(")
    assert str(rejector.threshold) in repr(rejector)


def test_outputs_of_another_network_or_class_order_are_refused(tmp_path):
    known, unknown = (
        replaced(drawn(200, seed=seed, unknown=seed == 3), input_step=STEP)
        for seed in (2, 3)
    )
    made = calibrated(detectors.MaxLogit().fit(), known=known, surrogate=unknown)
    for one in (made, Rejector.load(made.save(tmp_path / "rejector"))):
        for changes, words in (
            ({"logits": NEW.logits[:, :3]}, "n_classes must be 4, .*, got 3"),
            ({"features": NEW.features[:, :5]}, "n_features must be 8, .*, got 5"),
            ({"classes": tuple("bacd")}, "those of the rejector, .* got 'b' for cl"),
            ({"input_step": ""}, "perturbed by odin.* got inputs perturbed by noth"),
            (
                {"input_step": f"{STEP}1"},
                "perturbed by odin.* inputs perturbed by odin",
            ),
        ):
            given = {"logits": NEW.logits, "input_step": STEP} | changes
            bad = Outputs(**given, labels=np.full(61, -1))
            nothing = {n: a * NAN for n, a in given.items() if hasattr(a, "shape")}
            empty = Outputs(**given | nothing, invalid="keep")
            for use, wrong in (
                *((use, bad) for use in (one.predict, one.score, one.known)),
                *((use, bad) for use in (one.decide, one.operate)),
                (lambda it, one=one: one.decide(it, invalid="reject"), empty),
            ):
                with pytest.raises(ValueError, match=words):
                    use(wrong)
        good = Outputs(logits=NEW.logits, classes=tuple("abcd"), input_step=STEP)
        assert one.predict(good).shape == (61,)
    made.fitted.need_widths("export", {"n_classes": 4, "n_features": None}, " of it")
    with pytest.raises(ValueError, match="export: n_classes of it must be 4, as in"):
        made.fitted.need_widths("export", {"n_classes": 5}, " of it")


def test_names_fall_back_to_numbers_and_unknown_is_no_class():
    known = drawn(200, seed=2, classes=("cat", "unknown", "None", "Unknown"))
    unknown = drawn(200, seed=3, unknown=True, classes=())
    made = calibrated(detectors.MaxLogit().fit(), known=known, surrogate=unknown)
    names = [made.name_of(label) for label in (-1, 0, 1, 2, 3, 4)]
    assert names == ["unknown", "cat", "unknown (class 1)", "None", "Unknown", "4"]


def test_operation_on_samples_that_were_used_is_refused(rejector):
    train = drawn(300, seed=1)
    for n in (200, 2000):
        seen = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
        new = drawn(n, seed=7), drawn(n, seed=8, unknown=True)
        assert 0 < rejector.operate(Outputs.concat(new)).oosa < 1
        for test in ((new[0], seen[1]), (seen[0], new[1]), seen):
            with pytest.raises(ValueError, match="other samples than those the thresh"):
                rejector.operate(Outputs.concat(test))
    with pytest.raises(ValueError, match="not fitted on, got 300 of 300 known samples"):
        rejector.operate(Outputs.concat([train, new[1]]))


def spoilt(*changes):
    """Return the samples, some of them changed: (row, array, values)."""
    arrays = {name: np.array(getattr(NEW, name)) for name in ("logits", "features")}
    for row, name, values in changes:
        arrays[name][row] = values
    return Outputs(**arrays, invalid="keep")


BAD = {
    "NaN in a logit": ("logits", [NAN, 0, 0, 0]),
    "NaN in a feature": ("features", [NAN] * 8),
    "two infinite logits": ("logits", [INF, 0, INF, 0]),
    "no logit at all": ("logits", [-INF] * 4),
    "infinite features": ("features", [INF] * 8),
    "opposite infinities": ("features", [INF, -INF] * 4),
    "a huge logit": ("logits", [1e308, -1e308, 0, 0]),
}
ALWAYS = set(list(BAD)[:4])
INVALID = {  # what else has no score
    "maxlogit": set(),
    "gen": set(),
    "knn": {"infinite features", "opposite infinities"},
    "rmds": {"infinite features", "opposite infinities"},
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_invalid_samples_are_rejected_and_the_others_answered_as_if_alone(name):
    made = rejector_of(name, sets=0.9)
    others = np.arange(61) != ROW
    alone = made.decide(NEW.take(others))
    assert not alone.is_invalid.any()
    for kind, (array, values) in BAD.items():
        new = spoilt((ROW, array, values))
        decided = made.decide(new, invalid="reject")
        rows = [ROW] if kind in ALWAYS | INVALID[name] else []
        assert np.flatnonzero(decided.is_invalid).tolist() == rows, kind
        if not rows:
            continue
        for what in ("labels", "predicted", "known", "sets"):  # to the last bit
            assert_array_equal(getattr(decided, what)[others], getattr(alone, what))
        assert decided.labels[ROW] == decided.predicted[ROW] == -1
        assert np.isnan([decided.known[ROW], made.margins(decided)[ROW]]).all()
        assert decided.set_classes[ROW] == []
        counts = f"rejected={alone.n_rejected}, invalid=1"
        assert f"accepted={60 - alone.n_rejected}, {counts}" in repr(decided)
        with pytest.raises(InvalidSamplesError) as caught:
            made.decide(Outputs(logits=new.logits, features=new.features))
        assert caught.value.rows == (ROW,)


def test_columns_rows_and_files_say_the_same(tmp_path):
    made = rejector_of("msp", sets=0.97)
    arrays = {name: np.array(getattr(NEW, name)) for name in ("logits", "features")}
    arrays["logits"][ROW] = NAN
    arrays["logits"][0] = [2.0, 1.9, 0, 0]
    ids = [f"={i}.png" for i in range(61)]
    new = Outputs(**arrays, ids=ids, groups=["night"] * 61, invalid="keep")
    decided = made.decide(new, threshold=-INF, invalid="reject")
    columns, rows = made.columns(decided, new), made.rows(decided, new)
    names = ["decision", "name", "predicted", "known", "margin", "invalid"]
    names += ["group", "id", "set"]
    assert list(columns) == list(rows[0]) == names
    assert_array_equal(columns["decision"], decided.labels)
    assert_array_equal(columns["set"], decided.sets)
    invalid = [-1, "unknown", -1, None, None, True, "night", f"={ROW}.png", []]
    assert list(rows[ROW].values()) == invalid
    assert rows[0]["set"] == ["abcd"[c] for c in decided.set_classes[0]] != []
    json.dumps(rows, allow_nan=False)
    with np.load(made.save_decisions(tmp_path / "d.npz", decided, new)) as saved:
        assert list(saved) == names
        assert_array_equal(saved["margin"], made.margins(decided))
    text = made.save_decisions(tmp_path / "d.csv", decided, new).read_text("utf-8")
    read = list(csv.DictReader(io.StringIO(text)))
    assert [int(row["row"]) for row in read] == list(range(61))
    assert read[0]["set"] == "|".join(rows[0]["set"])
    assert (read[ROW]["known"], read[ROW]["id"]) == ("nan", f"'={ROW}.png")
    for row, line in zip(rows, read, strict=True):
        assert int(line["decision"]) == row["decision"]
        assert row["known"] is None or float(line["known"]) == row["known"]
    with pytest.raises(ValueError, match=r"must be one of '\.csv', '\.npz'"):
        made.save_decisions(tmp_path / "d.txt", decided, new)
    plain = rejector_of("msp")
    assert list(plain.columns(plain.decide(NEW), NEW)) == names[:6]
