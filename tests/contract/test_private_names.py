"""A name with an underscore is used in its own package only.

A package is what lies directly below `openset`: `metrics`, `bench`, `outputs`, ... The
modules `_check`, `_io`, `_xp` and their like are shared by all.
"""

import ast
from pathlib import Path

import pytest

import openset

ROOT = Path(openset.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Public in spite of their underscore: a named tuple's, a module of torch, `os._exit`.
ELSEWHERE = {"_asdict", "_replace", "_dynamo", "_exit"}


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def defined(tree):
    """Return the private names of functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def crossings(text, *, package, own):
    """Return the private names of other packages that a module uses."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "") == "openset":
            continue  # the shared modules
        if isinstance(node, ast.ImportFrom | ast.Import):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{name}" for name in modules]
            for module in modules:
                root, *parts = module.split(".")
                is_ours = root == "openset" and parts and parts[0] != package
                if is_ours and any(is_private(part) for part in parts[1:]):
                    found.append(module)
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            # On `self` it may be inherited, from torch too.
            is_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not is_self and node.attr not in own | ELSEWHERE:
                found.append(ast.unparse(node))
    return found


def test_private_names_stay_in_their_package():
    texts = {path: path.read_text("utf-8") for path in FILES}
    own = {}
    for path, text in texts.items():
        own.setdefault(package_of(path), set()).update(defined(ast.parse(text)))
    found = {}
    for path, text in texts.items():
        package = package_of(path)
        if used := crossings(text, package=package, own=own[package]):
            found[str(path.relative_to(ROOT))] = used
    assert found == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from openset.metrics._auroc import auroc", ["openset.metrics._auroc.auroc"]),
        ("from openset.metrics import _auroc", ["openset.metrics._auroc"]),
        ("import openset.metrics._auroc", ["openset.metrics._auroc"]),
        ("outputs._rows", ["outputs._rows"]),
        ("from openset import _check; _check._hidden", ["_check._hidden"]),
        ("from openset import _check; from openset._types import UNKNOWN", []),
        ("from openset.bench._plan import plan; plan._own", []),
        ("row._asdict(), one.__dict__", []),
    ],
)
def test_such_names_are_found(text, found):
    assert crossings(text, package="bench", own={"_own"}) == found
