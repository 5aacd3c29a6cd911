"""The package itself: what it offers, and what it does not import."""

import subprocess
import sys

import pytest

import openset

HEAVY = {"scipy.stats", "scipy.optimize", "sklearn", "pandas", "torch", "fastapi"}
VERY = HEAVY | {"scipy", "matplotlib", "rich", "PIL"}
SCIPY = {"scipy.linalg", "scipy.special", "scipy.stats", "scipy.optimize"}


@pytest.mark.parametrize(
    ("names", "heavy"),
    [
        ("__version__", VERY | {"numpy"}),
        ("protocols, openset.datasets, openset.Scores", VERY),
        ("cli", HEAVY),
        ("detectors, openset.Rejector, openset.metrics", SCIPY),
        ("bench", HEAVY - {"scipy.optimize"}),
    ],
)
def test_nobody_waits_for_packages_that_are_not_needed(names, heavy):
    if names == "bench":
        pytest.importorskip("pydantic", reason="the extra bench")
    load = (
        "import openset.cli" if names == "cli" else f"import openset; openset.{names}"
    )
    program = f"{load}\nimport sys\nprint(*{heavy} & sys.modules.keys())"
    done = subprocess.run(  # noqa: S603  # our own interpreter and program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", openset.__all__)
def test_every_public_name_is_there(name):
    assert getattr(openset, name) is not None
    assert name in dir(openset)


def test_only_public_names_are_listed():
    assert dir(openset) == sorted(openset.__all__)


def test_other_names_are_refused_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        openset.nothing  # noqa: B018
