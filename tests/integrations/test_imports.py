"""What is imported when, and what is said when it is not there."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import openset

BLOCKED = {
    "torch": ("train", "integrations.torch", "integrations.torchmetrics"),
    "torchmetrics": ("integrations.torchmetrics",),
    "onnx": ("integrations.onnx",),
    "mlflow": ("integrations.mlflow",),
    "transformers": ("integrations.transformers",),
}

# As on a machine without it; an entry None in sys.modules would confuse others.
BLOCK = """
import sys
class Block:
    absent = {0!r}
    def find_spec(self, name, path=None, target=None):
        if name == self.absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from importlib import import_module
from openset import MissingExtraError
"""
BLOCK_EACH = """
for Block.absent, modules in {0!r}.items():
    assert Block.absent not in sys.modules
    for name in modules:
        try:
            import_module(f"openset.{{name}}")
        except MissingExtraError as error:
            print(Block.absent, name, error)
"""


def python(code):
    return subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_openset_imports_no_framework():
    heavy = ("torch", "onnx", "onnxruntime", "torchmetrics", "torchvision", "timm")
    code = f"import sys, openset.cli; print([m for m in {heavy} if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


@pytest.fixture(scope="module")
def said_without():
    """Return what is said without each framework: one process misses all in turn."""
    done = python(BLOCK.format("") + BLOCK_EACH.format(BLOCKED))
    assert done.returncode == 0, done.stderr
    words = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return {(framework, module): said for framework, module, said in words}


@pytest.mark.parametrize("framework", BLOCKED)
def test_a_missing_framework_is_named_with_its_extra(said_without, framework):
    if framework in {"torchmetrics", "transformers"}:
        pytest.importorskip("torch", reason="the extra torch, missed before it")
    for module in BLOCKED[framework]:
        said = said_without[framework, module]
        extra = module.rpartition(".")[2].replace("train", "torch")
        assert f"needs {framework}; install it with" in said
        assert said.endswith((f'"openset[{extra}]"', '"openset[torch]"'))


OURS = """
from openset import MissingExtraError, _optional
for name in ("openset.train",):
    try:
        _optional.optional(name, "torch")
    except MissingExtraError as error:
        print(error)
"""


def test_a_module_of_ours_that_does_not_import_names_the_missing_package():
    said = python(BLOCK.format("torch") + OURS).stdout.splitlines()
    one = 'needs torch; install it with: pip install "openset[torch]"'
    assert said == [one]


def test_modules_are_there_on_first_use():
    assert openset.train.extract.__name__ == "extract"
    assert openset.integrations.sklearn.OpenSetClassifier
    assert openset.integrations.torch.OpenSetModule
    for module in (openset, openset.integrations):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018  # the access is the test


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the extra torch")
UNFIT = "raise RuntimeError('operator torchvision::nms does not exist\\nand more')"
FIT = (
    *("train", "bench", "serve", "report", "cli", "datasets"),
    *("integrations.torch", "integrations.onnx", "integrations.sklearn"),
)
IMPORTS = """
import {0}
import sys
sys.stderr.write("imported\\n")
import openset.extract
for work in (
    lambda: __import__("openset.integrations.torchmetrics"),
    lambda: openset.extract.load({1!r}),
):
    try:
        work()
    except (openset.MissingExtraError, RuntimeError) as error:
        sys.stderr.write(f"{{error}}\\n")
"""


@pytest.fixture(scope="module")
def beside_unfit(tmp_path_factory):
    """Return what is said beside a torchvision that does not fit torch, by a process.

    First others are imported, then what needs torchvision: torchmetrics wherever it is
    installed; `import transformers` works, its models do not.
    """
    folder = tmp_path_factory.mktemp("unfit")
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "torchvision.py").write_text(UNFIT)
    names = ", ".join(f"openset.{name}" for name in FIT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        done = python(IMPORTS.format(names, f"hf:{folder}"))
    return done.stderr


@needs_torch
def test_everything_else_imports_beside_a_torchvision_that_does_not_fit(beside_unfit):
    assert beside_unfit.startswith("imported\n")


@needs_torch
def test_a_torchvision_that_does_not_fit_torch_is_named(beside_unfit):
    said = beside_unfit.splitlines()
    assert said[1] == "operator torchvision::nms does not exist"
    assert "a package that is installed does not import" in beside_unfit
    assert beside_unfit.count("operator torchvision::nms does not exist") == 2
