"""Install a wheel into fresh environments and use it, outside the checkout.

    python .ci/test_wheel.py dist/openset-0.1.0-py3-none-any.whl tables report

The first environment has no extras, then one for every extra that is named.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALONE = """
import openset
assert "site-packages" in openset.__file__, openset.__file__
parts = openset.demo()  # data that come with the wheel
fitted = openset.detectors.PostMax().fit(parts.train)
test = openset.Outputs.concat([parts.test, parts.unseen])
fitted.score(test).save("scores.csv")
rejector = openset.Rejector.calibrate(
    fitted, known=parts.validation, surrogate=parts.surrogate
)
rejector.save("rejector")
parts.unseen.save("unseen.npz")
assert (rejector.predict(parts.unseen) == -1).mean() > 0.8
"""
# What an extra is for, in commands (of openset) or programs (of Python).
OF_EXTRA = {
    "tables": "import openset; openset.Scores.load('scores.csv').save('a.parquet')",
    "report": ["report", "scores.csv", "--out", "page.html"],
    "bench": "import openset; openset.bench.read(STUDY)",
    "torch": "import openset; openset.train",
    "onnx,torch": ["export", "rejector", "--onnx", "--out", "rejector.onnx"],
    "serve": ["serve", "--help"],
}


def test(wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel with an extra, and use both."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(program: str, *words: str) -> None:
        command = [str(programs / program), *words]
        env = environment | {"PYTHONUTF8": "1"}
        subprocess.run(command, cwd=folder, env=env, check=True)  # noqa: S603

    wanted = f"openset[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    constraints = str(ROOT / "constraints.txt")
    run("python", "-m", "pip", "install", "-q", "-c", constraints, wanted)
    run("python", "-I", "-c", ALONE)
    run("openset", "evaluate", "scores.csv")
    run("openset", "predict", "rejector", "unseen.npz", "--out", "decisions.csv")
    use = OF_EXTRA.get(extra, [])
    if isinstance(use, str):
        study = repr(str(ROOT / "examples" / "study.yaml"))
        run("python", "-c", use.replace("STUDY", study))
    elif use:
        run("openset", *use)
    print(f"{wheel.name}{f'[{extra}]' if extra else ''}: good", flush=True)


if __name__ == "__main__":
    for extra in ["", *sys.argv[2:]]:
        with tempfile.TemporaryDirectory() as folder:
            test(Path(sys.argv[1]).resolve(), extra, Path(folder))
