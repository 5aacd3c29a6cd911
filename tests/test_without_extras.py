"""Without an optional package, what needs it skips, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

from openset._optional import optional

ROOT = Path(__file__).parents[1]


@pytest.fixture
def rules(monkeypatch):
    """Load the hooks of all tests, as if a package of an extra were missing."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ABSENT", {"surely_absent"})
    return module


def run(rules, test):
    """Run a test as pytest does between the two halves of a hook."""
    hook = rules.skipping()
    next(hook)
    try:
        test()
    except Exception as error:
        hook.throw(error)


def by_name():
    import surely_absent  # noqa: F401, PLC0415


def by_an_extra():
    optional("surely_absent.part", "extra")


@pytest.mark.parametrize("test", [by_name, by_an_extra])
def test_a_test_that_needs_it_skips(rules, test):
    with pytest.raises(pytest.skip.Exception, match="needs surely_absent"):
        run(rules, test)


def test_other_failures_stay(rules, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        run(rules, lambda: 1 / 0)
    with pytest.raises(ModuleNotFoundError, match="misspelt"):
        run(rules, lambda: __import__("misspelt"))
    monkeypatch.setattr(rules, "ABSENT", {"numpy"})  # something else
    with pytest.raises(ModuleNotFoundError, match="surely_absent"):
        run(rules, by_name)
