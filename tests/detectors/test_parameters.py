"""Default parameters, as in the papers or their code, and how far each may go."""

import math

import pytest

from openset.detectors import make

TINY = math.ulp(0.0)


BELOW_ONE, ABOVE_ONE = math.nextafter(1, 0), math.nextafter(1, 2)


BELOW_100, ABOVE_100 = math.nextafter(100, 0), math.nextafter(100, 101)


DEFAULTS = {
    "ash": {"variant": "s", "percentile": 90, "relu": False},
    "dice": {"percentile": 90},
    "energy": {"temperature": 1},
    "evm": {"tail": 75, "margin": 0.5, "cover": 0.5},
    "fdbd": {"origin": "mean"},
    "gen": {"gamma": 0.1, "top": 100},
    "gmm": {"reg": 1e-3},
    "gradnorm": {"temperature": 1},
    "knn": {"k": 50, "bank": None, "backend": "matmul", "index": "Flat"},
    "lts": {"percentile": 95},
    "mahalanobis": {"normalize": False, "cutoff": 1e-12},
    "mcm": {"temperature": 100},
    "msp": {"temperature": 1},
    "nci": {"alpha": 1e-3},
    "nnguide": {"k": 10, "bank": None, "backend": "matmul", "index": "Flat"},
    "nno": {"tau": None, "quantile": 0.95},
    "openmax": {
        "tail": 20,
        "alpha": 10,
        "distance": "eucos",
        "weight": 1 / 200,
        "translate": 10_000,
    },
    "pisvm": {"cost": 1, "gamma": None, "tail": None, "translate": 1},
    "pnml": {"cutoff": 1e-7},
    "postmax": {"norm": "l2", "method": "profile", "only_correct": True},
    "react": {"percentile": 90},
    "relation": {"power": 1, "cut": 0.03, "bank": None},
    "residual": {"dim": None},
    "rmds": {"normalize": False, "cutoff": 1e-12},
    "scale": {"percentile": 85, "relu": False},
    "vim": {"dim": None},
    "vra": {
        "low": 60,
        "high": 95,
        "below": "zero",
    },
    "weiper": {
        "delta": 2.1,
        "repeats": 100,
        "weight_logits": 1,
        "weight_msp": 1,
        "bins": 100,
        "smooth": 20,
        "max_samples": 10_000,
    },
    "wsvm": {
        "cost": 1,
        "nu": 0.5,
        "gamma": None,
        "gate": 1e-3,
        "tail": None,
        "translate": 1,
    },
}


# Allowed, then refused.
POSITIVE = ([TINY, 1e300], [0.0, -TINY, math.inf])


NOT_NEGATIVE = ([0.0, 1e300], [-TINY, math.inf])


FROM_ONE = ([1, 10**9], [0, 1.5])


SHARE = ([0.0, BELOW_ONE], [-TINY, 1.0])


SOME_SHARE = ([TINY, 1.0], [0.0, ABOVE_ONE])


PERCENTILE = ([0.0, BELOW_100], [-TINY, 100.0])


LIMITS = {
    "ash": {"percentile": PERCENTILE},
    "dice": {"percentile": PERCENTILE},
    "energy": {"temperature": POSITIVE},
    "evm": {"tail": FROM_ONE, "margin": POSITIVE, "cover": SOME_SHARE},
    "gen": {"gamma": POSITIVE, "top": FROM_ONE},
    "gmm": {"reg": ([1e-9, 1e300], [9e-10, math.inf])},
    "gradnorm": {"temperature": POSITIVE},
    "knn": {"k": FROM_ONE, "seed": ([0, 10**9], [-1, 0.5])},
    "lts": {"percentile": PERCENTILE},
    "mahalanobis": {"cutoff": SHARE},
    "mcm": {"temperature": POSITIVE},
    "msp": {"temperature": POSITIVE},
    "nci": {"alpha": NOT_NEGATIVE},
    "nno": {"tau": POSITIVE, "quantile": SOME_SHARE},
    "openmax": {
        "tail": FROM_ONE,
        "alpha": FROM_ONE,
        "weight": NOT_NEGATIVE,
        "translate": POSITIVE,
    },
    "pisvm": {
        "cost": POSITIVE,
        "gamma": POSITIVE,
        "tail": FROM_ONE,
        "translate": POSITIVE,
    },
    "pnml": {"cutoff": SHARE},
    "react": {
        "percentile": ([0.0, 100.0], [-TINY, ABOVE_100]),
    },
    "relation": {
        "power": POSITIVE,
        "cut": SHARE,
        "bank": ([1, TINY, 1.0], [0, 0.0, -1]),
    },
    "residual": {"dim": FROM_ONE},
    "scale": {"percentile": PERCENTILE},
    "vim": {"dim": FROM_ONE},
    "vra": {
        "low": ([0.0, 95.0], [-TINY, ABOVE_100]),
        "high": ([60.0, 100.0], [-TINY, ABOVE_100]),
    },
    "weiper": {
        "delta": POSITIVE,
        "repeats": FROM_ONE,
        "weight_logits": NOT_NEGATIVE,
        "weight_msp": NOT_NEGATIVE,
        "bins": ([2, 10**9], [1, 2.5]),
        "smooth": FROM_ONE,
        "max_samples": FROM_ONE,
    },
    "wsvm": {
        "cost": POSITIVE,
        "nu": SOME_SHARE,
        "gamma": POSITIVE,
        "gate": SHARE,
        "tail": FROM_ONE,
        "translate": POSITIVE,
    },
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_are_the_published_ones(name):
    params = make(name).params()
    assert {key: value for key, value in params.items() if key != "seed"} == (
        DEFAULTS[name]
    )


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name in LIMITS for key in LIMITS[name]]
)
def test_a_parameter_may_go_as_far_as_its_limits(name, key):
    allowed, refused = LIMITS[name][key]
    for value in allowed:
        assert make(name, **{key: value}).params()[key] == value
    for value in refused:
        with pytest.raises(ValueError, match=f"{key} must be"):
            make(name, **{key: value})
