"""The package itself: what it offers, and what it does not import."""

import subprocess
import sys

import pytest

import openset

HEAVY = ("numpy", "scipy", "sklearn", "pandas", "torch", "matplotlib", "rich", "PIL")


def loaded_after(code, names=HEAVY):
    program = f"{code}\nimport sys\nprint(*[m for m in {names!r} if m in sys.modules])"
    done = subprocess.run(  # noqa: S603  # our own interpreter and program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    assert loaded_after("import openset") == set()


def test_protocols_and_data_sets_need_numpy_only():
    code = "import openset; openset.protocols, openset.datasets, openset.Scores"
    assert loaded_after(code) == {"numpy"}


def test_the_help_does_not_wait_for_statistics_and_learning():
    heavy = ("scipy.stats", "scipy.optimize", "sklearn", "pandas", "torch", "fastapi")
    assert loaded_after("import openset.cli", heavy) == set()


def test_deciding_does_not_wait_for_parts_of_scipy_that_few_detectors_need():
    parts = ("scipy.linalg", "scipy.special", "scipy.stats", "scipy.optimize")
    code = "import openset; openset.detectors, openset.Rejector, openset.metrics"
    assert loaded_after(code, parts) == set()


def test_studies_of_saved_outputs_do_not_wait_for_scikit_learn():
    pytest.importorskip("pydantic", reason="the extra bench")
    heavy = ("scipy.stats", "sklearn", "pandas", "torch")
    assert loaded_after("import openset.bench", heavy) == set()


@pytest.mark.parametrize("name", openset.__all__)
def test_every_public_name_is_there(name):
    assert getattr(openset, name) is not None
    assert name in dir(openset)


def test_only_public_names_are_listed():
    assert dir(openset) == sorted(openset.__all__)


def test_other_names_are_refused_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        openset.nothing  # noqa: B018
