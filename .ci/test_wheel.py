"""Install a wheel into fresh environments and use it, outside the checkout.

    python .ci/test_wheel.py dist/openset-0.1.0-py3-none-any.whl tables report

The first environment has no extras, then one for every extra that is named.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCORES = """labels,predicted,known
cat,cat,0.9
dog,dog,0.8
dog,cat,0.4
unknown,cat,0.3
unknown,dog,0.5
"""
IMPORTS = """
import openset, sys
from openset import checks, datasets, detectors, metrics, protocols, rejector, stats
from openset import thresholds, watch
assert "site-packages" in openset.__file__, openset.__file__
for name in ("clinc150", "banking77", "vowel"):  # data that come with the wheel
    assert len(datasets.load(name, "nowhere", offline=True))
print(openset.__version__)
"""
# Export, and ask the graph what `openset predict` answered.
GRAPH = """
import csv, numpy as np, onnxruntime
arrays = np.load("demo/unseen.npz")
session = onnxruntime.InferenceSession("rejector.onnx")
names = [one.name for one in session.get_inputs() if one.name != "threshold"]
feeds = {name: arrays[name].astype(np.float32) for name in names}
[found] = session.run(["class"], feeds)
expected = [int(row["decision"]) for row in csv.DictReader(open("decisions.csv"))]
assert np.mean(found == expected) > 0.99, (found, expected)
"""
# Serve, and ask by HTTP what `openset predict` answered.
SERVER = """
import csv, json, subprocess, sys, urllib.request
words = [sys.executable, "-m", "openset", "serve", "rejector", "--port", "0"]
server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
for line in server.stderr:
    if "Serving at" in line:
        address = line.split("Serving at ")[1].split()[0]
    if "startup complete" in line:
        break
body = open("demo/unseen.npz", "rb").read()
headers = {"Content-Type": "application/x-npz"}
asked = urllib.request.Request(address + "/predict", body, headers)
answer = json.load(urllib.request.urlopen(asked))
expected = [int(row["decision"]) for row in csv.DictReader(open("decisions.csv"))]
assert answer["decisions"] == expected, answer
server.terminate()
server.wait()
"""
REJECTOR = [
    ["openset", "demo", "--out", "demo"],
    ["openset", "calibrate", "--train", "demo/train.npz", "--known",
     "demo/validation.npz", "--surrogate", "demo/surrogate.npz", "--out", "rejector"],
    ["openset", "predict", "rejector", "demo/unseen.npz", "--out", "decisions.csv"],
]  # fmt: skip
# What an extra is for, in a few commands or programs.
OF_EXTRA = {
    "tables": [["python", "-c", "import openset; "
                "s = openset.Scores.load('scores.csv'); s.save('scores.parquet'); "
                "assert len(openset.Scores.load('scores.parquet')) == 5"]],
    "report": [["openset", "report", "scores.csv", "--out", "page.html"]],
    "bench": [["openset", "bench", str(ROOT / "examples/study.yaml"), "--out", "run",
               "--dry-run"]],
    "torch": [["python", "-c", "import openset.train"]],
    "onnx": [*REJECTOR,
             ["openset", "export", "rejector", "--onnx", "--out", "rejector.onnx"],
             ["python", "-c", GRAPH]],
    "serve": [*REJECTOR, ["python", "-c", SERVER]],
}  # fmt: skip


def main(wheel: Path, extras: list[str]) -> None:
    """Test the wheel alone, and with each extra."""
    for extra in ["", *extras]:
        with tempfile.TemporaryDirectory() as name:
            _test(wheel.resolve(), extra, Path(name))
        print(f"{wheel.name}{f'[{extra}]' if extra else ''}: good", flush=True)


def _test(wheel: Path, extra: str, folder: Path) -> None:
    home = folder / "venv"
    venv.create(home, with_pip=True)
    bin_folder = home / ("Scripts" if os.name == "nt" else "bin")
    (folder / "scores.csv").write_text(SCORES, encoding="utf-8")

    def run(program: str, *words: str) -> str:
        # -I and no PYTHONPATH: only what the environment holds is found.
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(  # noqa: S603  # what this script says
            [str(bin_folder / program), *words],
            cwd=folder,
            env=clean | {"PYTHONUTF8": "1"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            sys.exit(f"{program} {' '.join(words)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    wanted = f"openset[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    constraints = str(ROOT / "constraints.txt")
    run("python", "-m", "pip", "install", "-q", "-c", constraints, wanted)
    version = run("python", "-I", "-c", IMPORTS).strip()
    assert run("openset", "--version").strip() == f"openset {version}"
    assert "evaluate" in run("openset", "--help")
    found = json.loads(run("openset", "evaluate", "scores.csv", "--json"))
    assert (found["n_known"], found["n_unknown"]) == (3, 2)
    for program, *words in OF_EXTRA[extra] if extra else []:
        run(program, *words)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
