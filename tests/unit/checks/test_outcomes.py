"""Every check can pass, object, and say that it has nothing to look at."""

from pathlib import Path

import numpy as np
import pytest

from openset import protocols, thresholds
from openset.checks._run import REGISTRY
from openset.protocols import Protocol
from tests.unit.checks.makers import look, reported, results, scores

TEST, OTHER = scores(seed=0), scores(seed=1)
SATURATED = TEST.with_known(np.minimum(TEST.known, 1.0))
LOPSIDED = scores(400, 100)
ZOO = {"known": ["cat"], "unknown": ["fox"], "unknown_source": "zoo"}
MIXED = Protocol(**ZOO, surrogate=["fox"], surrogate_source="zoo again")
APART = Protocol(**ZOO, surrogate=["owl"], surrogate_source="zoo again")
GRID = protocols.grid(10, sizes=[(4, 3), (2, 8)], repeats=3)
CLAIM = {"headline": "openauc", "claim": 0.1}

# code: what passes, what is objected to, what is not applicable
STUDIES = {
    "OSR001": (
        {"protocols": GRID},
        {"protocols": protocols.holdout(10, 6, 4, repeats=3)},
        {"scores": TEST},
    ),
    "OSR002": (
        {"protocols": GRID},
        {"protocols": protocols.grid(10, sizes=[(4, 3), (2, 8)], repeats=1)},
        {"scores": TEST},
    ),
    "OSR003": (
        {"results": reported("inner_score", "halfpoint_score")},
        {"results": reported("inner_score", "auroc")},
        {"protocols": GRID},
    ),
    "OSR004": (
        {"scores": TEST, "headline": "f_score"},
        {"scores": LOPSIDED, "headline": "f_score"},
        {"headline": "f_score"},
    ),
    "OSR005": (
        {"headline": "openauc"},
        {"headline": "f_score"},
        {"results": reported("f_score")},
    ),
    "OSR006": (
        {"scores": TEST, "thresholds": thresholds.osa(OTHER)},
        {"scores": TEST, "thresholds": thresholds.osa(TEST)},
        {"scores": TEST, "thresholds": 0.5},
    ),
    "OSR007": ({"protocols": APART}, {"protocols": MIXED}, {"protocols": GRID}),
    "OSR008": ({"scores": TEST}, {"scores": SATURATED}, {"protocols": GRID}),
    "OSR009": (
        {"parts": {"train": ["a"], "test": ["b"]}},
        {"parts": {"train": ["a", "b"], "test": ["b"]}},
        {"parts": {"train": ["a"]}},
    ),
    "OSR010": (
        CLAIM | {"results": results(a=[0.80, 0.81, 0.82], b=[0.60, 0.62, 0.61])},
        CLAIM | {"results": results(a=[0.80, 0.40, 0.82], b=[0.60, 0.90, 0.61])},
        {"results": results(a=[0.80, 0.81], b=[0.60, 0.62])},
    ),
    "OSR011": ({"tuned_on": "validation"}, {"tuned_on": "openness"}, {}),
    "OSR012": (
        {"scores": TEST},
        {"scores": TEST.with_known(-TEST.known)},
        {"protocols": GRID},
    ),
}
STATUSES = ("passed", "finding", "not applicable")


def test_every_check_has_its_three_studies():
    assert set(STUDIES) == set(REGISTRY)


@pytest.mark.parametrize("code", STUDIES)
@pytest.mark.parametrize("status", STATUSES)
def test_each_check_has_three_outcomes(code, status):
    finding = look(code, **STUDIES[code][STATUSES.index(status)])
    assert (finding.status, finding.code) == (status, code)
    assert finding.message
    assert bool(finding.remedy) == (status == "finding")


@pytest.mark.parametrize("code", STUDIES)
def test_each_check_has_a_test_file_of_its_own(code):
    path = Path(__file__).with_name(f"test_{code.lower()}.py")
    assert code in path.read_text("utf-8")
