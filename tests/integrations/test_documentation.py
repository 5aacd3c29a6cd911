"""The blocks of docs/integrations.md, run one after the other as a reader would."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.clip import save_small

from openset import Outputs, Rejector, demo, detectors
from openset.integrations import onnx

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def save_demo(folder):
    """Write the files that `openset demo` writes, and return the rejector."""
    parts = demo()
    for name, part in parts._asdict().items():
        part.save(folder / f"{name}.npz")
    fitted = detectors.PostMax().fit(parts.train)
    rejector = Rejector.calibrate(
        fitted, known=parts.validation, surrogate=parts.surrogate, train=parts.train
    )
    rejector.save(folder / "rejector")
    return rejector


@pytest.mark.usefixtures("import_torchvision")  # torchmetrics imports it
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings(
    "ignore:.*type hint is inferred:UserWarning"
)  # MLflow's own
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    if not PAGE.exists():
        pytest.skip("the documentation is not part of this installation")
    monkeypatch.chdir(tmp_path)
    save_small("clip", tmp_path / "clip-folder")
    saved = save_demo(tmp_path / "demo-output")
    onnx.export(saved, tmp_path / "rejector.onnx")  # the page does it in the shell
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 9
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102  # our own page
    assert names["zero_shot"].classes == ("cat", "dog", "red bird")
    assert np.isfinite(names["mcm"].known(names["zero_shot"])).all()
    result = names["result"]
    np.testing.assert_array_equal(names["classes"], result.classes)
    np.testing.assert_allclose(names["known"], result.known, atol=1e-4)
    assert names["model"].score(names["X"][1::2], names["y"][1::2]) > 0.8
    assert names["openauc"].compute() > 0.7
    assert names["osa"].compute() > 0.7
    expected = saved.predict(Outputs.load("demo-output/unseen.npz"))
    np.testing.assert_array_equal(names["decisions"], expected)
    np.testing.assert_array_equal(names["table"]["label"], expected)
