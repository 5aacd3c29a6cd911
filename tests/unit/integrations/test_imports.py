"""What is imported when, and what is said when it is not there."""

import json
import os
import subprocess
import sys

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
    def find_spec(self, name, path=None, target=None):
        if name == {0!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from importlib import import_module
from openset import MissingExtraError
for name in {1!r}:
    try:
        import_module(f"openset.{{name}}")
    except MissingExtraError as error:
        print(error)
"""


def python(code):
    return subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_openset_imports_no_framework():
    heavy = ("torch", "onnx", "onnxruntime", "torchmetrics", "torchvision", "timm")
    code = f"import sys, openset.cli; print([m for m in {heavy} if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


@pytest.mark.parametrize("framework", BLOCKED)
def test_a_missing_framework_is_named_with_its_extra(framework):
    modules = BLOCKED[framework]
    said = python(BLOCK.format(framework, modules)).stdout.splitlines()
    assert len(said) == len(modules)
    for line, module in zip(said, modules, strict=True):
        extra = module.rpartition(".")[2].replace("train", "torch")
        assert f"needs {framework}; install it with" in line
        assert line.endswith((f"'openset[{extra}]'", "'openset[torch]'"))


OURS = """
from openset import _io
for name in ("openset.train", "openset.testing._method_checks"):
    try:
        _io.optional("bench", name, name="torch")
    except MissingExtraError as error:
        print(error)
"""


def test_a_module_of_ours_that_does_not_import_names_the_missing_package():
    said = python(BLOCK.format("torch", ()) + OURS).stdout.splitlines()
    one = "bench: needs torch; install it with: pip install 'openset[torch]'"
    assert said == [one, one]


def test_modules_are_there_on_first_use():
    assert openset.train.extract.__name__ == "extract"
    assert openset.integrations.sklearn.OpenSetClassifier
    assert openset.integrations.torch.OpenSetModule
    for module in (openset, openset.integrations):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018  # the access is the test


UNFIT = "raise RuntimeError('operator torchvision::nms does not exist\\nand more')"


def test_a_torchvision_that_does_not_fit_torch_is_named_with_the_remedy(
    tmp_path, monkeypatch
):
    """It is imported by torchmetrics, wherever it is installed."""
    (tmp_path / "torchvision.py").write_text(UNFIT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    done = python("import openset.integrations.torchmetrics")
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(
        "openset._types.MissingExtraError: openset.integrations.torchmetrics: "
        "torchmetrics is installed but does not import "
        "(RuntimeError: operator torchvision::nms does not exist). Install the "
        "torchvision that fits this torch: pip uninstall torchvision, then pip install"
    )
    assert said.endswith(". Or uninstall torchvision")


def test_parts_that_transformers_imports_late_are_named_with_the_remedy(
    tmp_path, monkeypatch
):
    """`import transformers` works beside such a torchvision, its models do not."""
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "torchvision.py").write_text(UNFIT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    done = python(
        f"from openset.integrations import networks; networks.load('hf:{tmp_path}')"
    )
    said = done.stderr.strip().splitlines()[-1]
    assert "networks.load: transformers is installed but does not import" in said
    assert "Install the torchvision that fits this torch" in said


def test_everything_else_imports_beside_such_a_torchvision(tmp_path, monkeypatch):
    (tmp_path / "torchvision.py").write_text(UNFIT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    modules = (
        *("train", "bench", "serve", "report", "cli", "datasets"),
        *("integrations.torch", "integrations.onnx", "integrations.sklearn"),
    )
    done = python("import " + ", ".join(f"openset.{name}" for name in modules))
    assert (done.returncode, done.stderr) == (0, "")
