"""Names and what they stand for: registered, offered, imported, read from a file."""

import sys

import pytest

from openset import ArtefactError, _plugins
from openset._plugins import Registry


class Animal:
    """What the registry of these tests holds."""


class Cat(Animal):
    """One."""


class Dog(Animal):
    """Another."""


@pytest.fixture
def registry():
    accept = _plugins.subclass_of(Animal, "an animal")
    made = Registry("openset.animals", "an animal", accept, package="animals")
    made.register("cat", Cat)
    return made


def test_a_name_stands_for_one_thing(registry):
    registry.register("cat", Cat)  # a module that is reloaded
    with pytest.raises(ValueError, match=r"not taken, got 'cat', which is .*:Cat"):
        registry.register("cat", Dog)
    assert registry["cat"] is Cat


@pytest.mark.parametrize("name", ["", "Cat", "a cat", "a:b", "a,b"])
def test_a_name_can_be_typed_anywhere(registry, name):
    with pytest.raises(ValueError, match="name must be lower-case letters"):
        registry.register(name, Dog)


def test_a_wrong_name_gets_the_list_and_a_hint(registry):
    registry.register("dog", Dog, listed=False)
    assert registry.names() == ["cat"]
    assert registry.find("dog", caller="test") is Dog
    words = r"pet must be one of 'cat', got 'kat'\. Did you mean 'cat'\? Name an anim"
    with pytest.raises(ValueError, match=words):
        registry.find("kat", caller="test", argument="pet")


def test_a_path_is_imported(registry):
    assert registry.find(f"{__name__}:Dog", caller="test") is Dog
    for name, error, words in (
        ("builtins:str", TypeError, r"an animal \(a subclass of Animal\), got str"),
        ("nowhere:Cat", ImportError, "'nowhere:Cat' could not be"),
        ("sys:Cat", ImportError, "has no attribute"),
        (":Cat", ValueError, r"must be 'package\.module:Name', got ':Cat'"),
    ):
        with pytest.raises(error, match=words):
            registry.find(name, caller="test")


def test_a_file_imports_nothing(registry):
    with (
        _plugins.reading_a_file(),
        pytest.raises(ArtefactError, match="files must not make openset import code"),
    ):
        registry.find(f"{__name__}:Dog", caller="test")
    assert registry.find(f"{__name__}:Dog", caller="test") is Dog


def trusted(registry, name, written, *plugins):
    return registry.trusted(name, written, caller="test", plugins=plugins)


def test_a_file_gets_what_the_caller_trusts(registry):
    here = f"{__name__}:Cat"
    path = f"{__name__}:Dog"
    assert trusted(registry, "cat", here) is Cat  # registered
    assert trusted(registry, "dog", path, path) is Dog
    for given, words in (
        (("cat", "elsewhere:Cat"), f"'cat' is {here} here"),
        (("dog", "elsewhere:Dog"), r"plugins=\['elsewhere:Dog'\]"),
        (("dog", None), "that is registered here, got 'dog'"),
        (("dog", "elsewhere:Dog", path), "got 'dog', saved as el"),
    ):
        with pytest.raises(ArtefactError, match=words):
            trusted(registry, *given)


def test_a_file_that_names_a_module_does_not_import_it(registry, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("dog", "evil_module:Dog"):
        with pytest.raises(ArtefactError, match="saved as evil_module:Dog"):
            trusted(registry, name, "evil_module:Dog")
    assert "evil_module" not in sys.modules


def test_what_nobody_can_import_is_said():
    shadow = type("path", (), {"__module__": "os", "__qualname__": "path"})
    inside = type("A", (), {"__qualname__": "test.<locals>.A"})
    others = [type("A", (), {"__module__": name}) for name in ("__main__", "sys")]
    for one in (inside, shadow, *others):
        with pytest.raises(ValueError, match="could not be loaded again: it is defin"):
            _plugins.need_importable(one, caller="test")
    assert _plugins.need_importable(Cat, caller="test") == f"{__name__}:Cat"
