"""Each check: what passes, what is found, what it says of evidence it lacks."""

from dataclasses import replace

import numpy as np
import pytest

from openset import metrics, protocols, thresholds
from openset.protocols import Protocol
from openset.results import Result, Results
from openset.scores import Scores
from tests.checks.makers import look, reported, scores

TEST, OTHER = scores(), scores(seed=1)
GRID = protocols.grid(10, sizes=[(6, 3), (3, 6)], repeats=4)
HOLDOUT = protocols.holdout(10, 6, 4)
ZOO = {"known": ["cat"], "unknown": ["fox", "owl"], "unknown_source": "zoo"}
NUMBERS = {"known": [0], "unknown": [1], "surrogate": [1], "unknown_source": "svhn"}
MIXED = Scores.concat([OTHER.take(~OTHER.is_unknown), TEST.take(TEST.is_unknown)])
HIGH = np.where(TEST.is_unknown, TEST.known, np.maximum(TEST.known + 10, 11.5))
LEAKY = thresholds.osa(TEST)
LEAKS = ("openness", "test", "test unknowns")
LOW = Results([Result(detector="msp", seed=3, metric="auroc", value=0.2)])


def two(draw):
    """Known classes 0 and 1, unknown class 2, twice; they differ as `draw` says."""
    return [Protocol(known=[0, 1], unknown=[2], **draw(i)) for i in (3, 4)]


FOUND, PASSED, LACKING = "finding", "passed", "not applicable"
FLAT = TEST.with_known(np.ones(400))
WHOLE = [Protocol(known=range(k), unknown=range(k, 7 * k // 4)) for k in (4, 8)]


def of(key, *rows, **more):
    """Return cases of one kind of evidence: (evidence, status, words)."""
    return [
        ({key: one, **more}, status, *words, "")[:3] for one, status, *words in rows
    ]


CASES = {  # code: evidence, status, words
    "OSR001": [
        ({}, LACKING, "no protocols"),
        *of(
            "protocols",
            (protocols.holdout(10, 6, 4, repeats=5), FOUND, "all 5 protocols have"),
            (WHOLE, FOUND),  # other sizes, equal openness
            (GRID, PASSED, "2 values"),
        ),
    ],
    "OSR002": [
        ({}, LACKING, "no protocols"),
        *of(
            "protocols",
            ([*GRID, protocols.holdout(10, 2, 8)], FOUND, "draw at openness 0.423"),
            ([HOLDOUT] * 3, FOUND),
            (two(lambda i: {"surrogate": [i]}), FOUND),
            (two(lambda i: {"source": str(i)}), PASSED),
            (GRID, PASSED, "at least 4 class draws at 2 values"),
        ),
    ],
    "OSR003": [
        ({}, LACKING, "no metrics named"),
        ({"headline": "our new score"}, LACKING, ""),
        *of(
            "results",
            *(
                (reported("inner_score", f"{one}_score"), FOUND, "Halfpoint")
                for one in ("outer", "overall")
            ),
            *(
                (reported("inner_score", one), PASSED)
                for one in ("halfpoint_score", "ccr", "halfpoint_score_best")
            ),
            (reported("accuracy", "auroc", "acc_times_auroc"), FOUND),
            *(
                (reported("accuracy", "auroc", one), PASSED)
                for one in ("openauc", "overall_score", "OSCR", "ccr_at_fpr_0.1")
            ),
        ),
        *of(
            "headline",
            *(
                (one, FOUND, "wrong rejections")
                for one in ("auroc", "outer_score", "accuracy", "FPR95")
            ),
        ),
    ],
    "OSR004": [
        ({"headline": "f_score"}, LACKING, "no scores given"),
        ({"scores": TEST.take(~TEST.is_unknown)}, LACKING, "no scores with both"),
        ({"scores": scores(400, 100)}, LACKING, "4 known samples per unknown"),
        *of(
            "scores",
            (scores(400, 100), FOUND, "4 known samples per unknown one, and f_score"),
            (scores(100, 400), FOUND, "0.25 known samples"),
            (scores(200, 100), FOUND, "2 known samples"),
            (scores(150, 100), PASSED, "1.5 known samples"),
            ({"a": TEST, "b": scores(30, 300)}, FOUND, "0.1 to 1 known"),
            headline="f_score",
        ),
        *of("headline", ("auroc", PASSED), ("osa", PASSED), scores=scores(400, 100)),
    ],
    "OSR005": [
        ({}, LACKING, "no headline"),
        *of(
            "headline",
            ("our new score", LACKING, "'our new score'"),
            *(
                (one, FOUND, repr(one))
                for one in ("F1", "f_score_micro", "accuracy", "Acc")
            ),
            *((one, PASSED) for one in ("openauc", "auroc", "overall_score", "osa")),
        ),
    ],
    "OSR006": [
        *of(
            "calibration",
            (TEST, FOUND, "chosen on test samples"),
            (MIXED, FOUND),
            (TEST.take(np.arange(400)[::-1]), FOUND),
            (OTHER, PASSED, "1 test sets"),
            scores=TEST,
        ),
        # a typed number hits rounded scores; ties are no evidence
        (
            {"scores": TEST.with_known(TEST.known.round(1)), "thresholds": 0.5},
            LACKING,
            "",
        ),
        *of("calibration", (FLAT.take(np.arange(300)), PASSED), scores=FLAT),
        *of(
            "calibration",
            ({"msp": scores(seed=2), "energy": OTHER}, FOUND, "energy:"),
            scores={"msp": TEST, "energy": OTHER},
        ),
        ({"headline": "osa_best"}, FOUND, "the best over all thresholds"),
        *of(
            "thresholds",
            ({"value": 0.5, "method": "oracle OSA"}, FOUND, "oracle OSA"),
            (float(TEST.known[7]), FOUND, "is the score of one test"),
            (0.5, LACKING, "give calibration"),
            (LEAKY, FOUND, "chosen on test samples"),
            (LEAKY.to_dict(), FOUND),
            (thresholds.at_fpr(MIXED, 0.1), FOUND),
            scores=TEST,
        ),
        *of(
            "scores",
            (TEST.with_known(TEST.known * (1 + 1e-12)), FOUND),
            (OTHER, PASSED),
            thresholds=LEAKY.to_dict() | {"value": "-inf"},
        ),
    ],
    "OSR007": [
        ({}, LACKING, "no surrogate classes"),
        ({"scores": TEST, "calibration": OTHER}, LACKING, ""),
        *of(
            "protocols",
            (HOLDOUT, LACKING),
            (Protocol(**ZOO, surrogate=["fox"], surrogate_source="z"), FOUND, "'fox'"),
            # equal numbers of two sources are other classes
            (Protocol(**NUMBERS, surrogate_source="mnist"), PASSED),
            (protocols.operational(10, 5, 2, 3, repeats=3), PASSED, "3 cases"),
        ),
        *of(
            "calibration",
            (scores(seed=1, unknown_group="svhn"), FOUND, "'svhn'"),
            (scores(seed=1, unknown_group="dtd"), PASSED),
            scores=scores(unknown_group="svhn"),
        ),
    ],
    "OSR008": [
        ({}, LACKING, "no scores"),
        *of(
            "scores",
            (TEST, PASSED, "few ties in 1 set of scores"),
            (TEST.with_known(np.minimum(TEST.known, 1)), FOUND, "score exactly 1"),
            (TEST.with_known(HIGH), FOUND, "0.0% of the known-unknown pairs"),
            (TEST.with_known(TEST.known.round(1)), FOUND, "distinct scores"),
            (scores(5, 5).with_known([1, 1, *range(2, 10)]), PASSED),
            ({"msp": TEST.with_known(np.zeros(400)), "knn": TEST}, FOUND, "msp:"),
        ),
    ],
    "OSR009": [
        ({}, LACKING, "nothing to compare"),
        *of(
            "protocols",
            ([protocols.published("svhn", i) for i in range(5)], FOUND, "the same"),
        ),
        *of(
            "parts",
            ({"train": ["a", "b"], "test": ["d", "b"]}, FOUND, "test, b first"),
            ({"train": [1, 2], "test": [3]}, PASSED),
        ),
        *of(
            "scores",
            (TEST, LACKING, "nothing to compare"),
            ({"s0": TEST, "s1": TEST}, FOUND, "'s0' and 's1'"),
            ({"s0": TEST, "s1": OTHER}, PASSED),
        ),
    ],
    "OSR011": [
        ({}, LACKING, "no tuned_on"),
        *of(
            "tuned_on",
            *((["validation", one], FOUND, one.split()[-1]) for one in LEAKS),
            *((one, PASSED, one) for one in ("defaults", "n_known", "surrogate")),
        ),
    ],
    "OSR012": [
        ({}, LACKING, "and no AUROC"),
        *of(
            "scores",
            (TEST.take([0, 1]), LACKING),
            (TEST, PASSED, "none of 1 AUROC"),
            (TEST.with_known(-TEST.known), FOUND, "unknown samples score higher"),
            (scores(gap=-100), FOUND, "AUROC 0.000"),
            (scores(gap=0), PASSED),
            (scores(6, 6, gap=-0.3), PASSED),
            (scores(1, 2, gap=-100), PASSED),
        ),
        ({"results": LOW}, FOUND, "msp, seed 3"),
    ],
}


@pytest.mark.parametrize(
    ("code", "study", "status", "words"),
    [(code, *case) for code, cases in CASES.items() for case in cases],
)
def test_a_check_sees_what_is_wrong_and_says_so(code, study, status, words):
    finding = look(code, **study)
    assert finding.status == status, finding.message
    assert words in finding.message
    assert bool(finding.remedy) == (status == FOUND)


@pytest.mark.parametrize("code", CASES)
def test_every_check_has_its_three_outcomes(code):
    assert {status for _, status, _ in CASES[code]} == {FOUND, PASSED, LACKING}


# What metrics depend on, by trying: the checks must know the same.

rng = np.random.default_rng(4)
LABELS = np.concatenate([rng.integers(0, 3, 60), np.full(30, -1)])
SAMPLE = Scores(
    labels=LABELS,
    predicted=np.where(rng.random(90) < 0.8, np.maximum(LABELS, 0), 1),
    known=rng.normal(size=90) + (LABELS >= 0),
    n_classes=3,
)
CALIBRATION = Scores(labels=[0, -1], predicted=[0, 0], known=[0.5, 0.0])


def value(row, scores):
    if row.kind == "operational":
        return row.function(scores, CALIBRATION)
    return row.value(scores, 0.5)


SCALARS = pytest.mark.parametrize(
    "row",
    [
        row
        for row in metrics.table()
        if row.kind not in ("curve", "data")
        and row.function.__module__.startswith("openset.")
    ],
    ids=lambda row: row.key,
)


@SCALARS
def test_metrics_that_move_with_more_unknowns_are_known(row):
    rows = np.concatenate([np.arange(90), *[np.flatnonzero(SAMPLE.is_unknown)] * 3])
    moved = value(row, SAMPLE.take(rows)) != pytest.approx(value(row, SAMPLE))
    found = look("OSR004", scores=scores(400, 100), headline=row.key)
    assert found.is_finding == moved


@SCALARS
def test_the_errors_that_metrics_count_are_known(row):
    renamed = replace(SAMPLE, predicted=(SAMPLE.predicted + 1) % 3)
    # All known samples below the unknown ones, in the same order among themselves.
    shift = np.where(SAMPLE.is_unknown, 0, -100)
    rejected = SAMPLE.with_known(SAMPLE.known + shift)
    before = value(row, SAMPLE)
    sees_classes, sees_rejection = (
        value(row, changed) != pytest.approx(before) for changed in (renamed, rejected)
    )
    is_joint = "passed" in look("OSR003", results=reported("auroc", row.key)).status
    if row.key not in {"acc_times_auroc", "acc_plus_auroc"}:  # of two numbers
        assert is_joint == (sees_classes and sees_rejection)


def test_metrics_of_others_say_what_they_depend_on(monkeypatch):
    own = metrics.Metric(
        len, label="Own", better="higher", errors="both", by_prevalence=True
    )
    monkeypatch.setattr(metrics, "get", lambda _: own)
    assert "reported together: len" in look("OSR003", headline="len").message
    found = look("OSR004", scores=scores(400, 100), headline="len")
    assert "and len would differ at another ratio" in found.message
