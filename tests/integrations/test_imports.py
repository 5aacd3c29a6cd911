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
from importlib import import_module
from openset import MissingExtraError
class Block:
    absent = ""
    def find_spec(self, name, path=None, target=None):
        if name == self.absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
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


def test_a_missing_framework_is_named_with_its_extra():
    """One process misses all frameworks in turn."""
    pytest.importorskip("torch", reason="the first that some of them import")
    done = python(BLOCK.format(BLOCKED))
    assert done.returncode == 0, done.stderr
    words = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [one[:2] for one in words] == [[f, m] for f in BLOCKED for m in BLOCKED[f]]
    for framework, module, said in words:
        extra = module.rpartition(".")[2].replace("train", "torch")
        assert f"needs {framework}; install it with" in said
        assert said.endswith((f'"openset[{extra}]"', '"openset[torch]"'))


def test_modules_are_there_on_first_use():
    assert openset.train.extract.__name__ == "extract"
    assert openset.integrations.sklearn.OpenSetClassifier
    assert openset.integrations.torch.OpenSetModule
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        openset.integrations.nothing  # noqa: B018  # the access is the test


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


def test_beside_a_torchvision_that_does_not_fit_all_else_imports(tmp_path, monkeypatch):
    """What needs torchvision says so: torchmetrics, and models of transformers."""
    pytest.importorskip("torch", reason="the extra torch")
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "torchvision.py").write_text(UNFIT)
    names = ", ".join(f"openset.{name}" for name in FIT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    said = python(IMPORTS.format(names, f"hf:{tmp_path}")).stderr
    assert said.startswith("imported\n"), said
    assert said.count("operator torchvision::nms does not exist") >= 2
