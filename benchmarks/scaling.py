"""How time grows with samples, classes, features and cells; and what choosing costs.

    PYTHONPATH=src python benchmarks/scaling.py           # slopes, for docs/scaling.md
    PYTHONPATH=src python benchmarks/scaling.py --cells   # studies of 24 to 384 cells
    PYTHONPATH=src python benchmarks/scaling.py --choose  # at 50,000 x 1000 x 2048
    PYTHONPATH=src python benchmarks/scaling.py --choose 5000 100 256  # a trial

Slopes are those of a straight line through logarithms: 1 means that twice as much takes
twice as long. Times are processor time of the process (all its threads), the least of a
few calls, so that other work on the machine changes them little. `--choose` fits the
eighteen detectors of `operating.py` on 10,000 training samples, scores calibration
outputs of this size with each, and chooses; it writes `choosing_cost.json` to `--out`,
where it also continues. All three write their part of docs/scaling.md.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _measure import machine, put_section
from threadpoolctl import threadpool_limits

from openset import Outputs, Scores, bench, metrics, selection
from openset.detectors import Fitted, make, names
from openset.metrics import Sketch

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
CANDIDATES = (
    *("msp", "maxlogit", "energy", "gen", "postmax", "openmax"),
    *("nnguide", "scale", "ash", "react", "vim", "knn"),
    *("mahalanobis", "rmds", "fdbd", "nci", "osnn", "nno"),
)
SLOW = ("evm", "pisvm", "wsvm")  # fitting solves a problem per class or pair of samples
BASE = {"n": 1000, "classes": 50, "features": 64}
STEPS = {
    "n": (500, 1000, 2000, 4000),
    "classes": (25, 50, 100, 200),
    "features": (64, 128, 256, 512),
}
REPEATS = 3
N_TRAIN = 10_000
SEEDS = (4, 16, 64)
STUDY = """
protocols: [{{kind: holdout, data: digits, known: 6, unknown: 4, validation: 0.2}}]
models: [{{kind: logistic}}]
detectors: [msp, energy, maxlogit, entropy, gen, postmax]
seeds: {seeds}
calibrate: {{surrogate: mixup}}
"""


def made_up(n: int, classes: int, features: int, *, seed: int = 0) -> Outputs:
    """Make outputs of a linear head on class clusters."""
    rng = np.random.default_rng(seed)
    weight = np.random.default_rng(7).standard_normal(
        (classes, features), dtype=np.float32
    )
    labels = np.arange(n) % classes
    points = rng.standard_normal((n, features), dtype=np.float32)
    points += weight[labels]
    np.maximum(points, 0, out=points)
    scaled = weight * np.float32(4 / features)
    return Outputs(
        logits=points @ scaled.T,
        features=points,
        labels=labels,
        weight=scaled,
        bias=np.zeros(classes, np.float32),
    )


def least(function: Callable[[], object]) -> float:
    """Least processor time of a few calls."""
    function()
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        taken.append(time.process_time() - start)
    return max(min(taken), 1e-6)


def slope(sizes: tuple[int, ...], taken: list[float]) -> float:
    """Exponent of the growth: slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


def grow(name: str, what: str) -> tuple[float, float, list[float], list[float]]:
    """Fit and score a detector at all sizes of one kind."""
    fitting, scoring = [], []
    for size in STEPS[what]:
        sizes = BASE | {what: size}
        train, test = made_up(**sizes), made_up(**sizes, seed=1)
        fitted = make(name).fit(train)
        fitting.append(least(lambda train=train: make(name).fit(train)))
        scoring.append(least(lambda f=fitted, test=test: f.known(test)))
    kinds = STEPS[what]
    return slope(kinds, fitting), slope(kinds, scoring), fitting, scoring


def of_metrics() -> list[str]:
    """Measure metrics over n."""
    sizes = (2**16, 2**17, 2**18, 2**19, 2**20)
    rng = np.random.default_rng(0)

    def scores(n: int) -> Scores:
        labels = np.where(np.arange(n) % 2 == 0, -1, 0)
        known = rng.normal(size=n) + (labels == 0)
        return Scores(labels=labels, predicted=np.zeros(n, np.int64), known=known)

    sets = [scores(n) for n in sizes]
    sketch = Sketch()
    rows = []
    for label, function in (
        ("`metrics.evaluate`, all metrics", metrics.evaluate),
        ("`Sketch.update`", sketch.update),
        ("`np.sort`", lambda one: np.sort(one.known)),
    ):
        taken = [least(lambda f=function, one=one: f(one)) for one in sets]
        each = taken[-1] / sizes[-1]
        rows.append(
            f"| {label} | {slope(sizes, taken):.2f} | {each * 1e9:.0f} ns | "
            f"{predicted(taken[-1], sizes[-1], slope(sizes, taken))} |"
        )
        print(rows[-1], flush=True)
    return rows


def predicted(taken: float, n: int, exponent: float) -> str:
    """Extend a line to 10^9 samples."""
    total = taken * (1e9 / n) ** max(exponent, 1.0)
    return f"{total / 3600:.1f} h" if total > 7200 else f"{total / 60:.1f} min"


def slopes() -> None:
    """Measure all detectors, and write the page."""
    lines = []
    for name in (n for n in names() if n in CANDIDATES or n in ("mcm",)):
        cells = []
        per_sample = 0.0
        for what in STEPS:
            try:
                fit, score, _, scoring = grow(name, what)
            except (ValueError, ImportError) as error:
                print(f"{name} left out: {error}")
                break
            cells += [f"{fit:.1f}" if make(name).learns else "–", f"{score:.1f}"]
            if what == "n":
                per_sample = scoring[-1] / STEPS["n"][-1]
        else:
            lines.append(
                f"| {name} | {' | '.join(cells)} | {per_sample * 1e6:.2f} µs |"
            )
            print(lines[-1], flush=True)
    base = ", ".join(f"{v} {k}" for k, v in BASE.items())
    ranges = ", ".join(f"{k} {v[0]} to {v[-1]}" for k, v in STEPS.items())
    text = f"""`python benchmarks/scaling.py` on {machine()}; numpy {np.__version__}.
Processor time, the fastest of {REPEATS} calls. Base: {base} (n samples to fit and to
score); one of them grows: {ranges}.

| detector | fit, n | score, n | fit, classes | score, classes | fit, features |
score, features | score of a sample at n = {STEPS["n"][-1]} |
|---|---|---|---|---|---|---|---|
""".replace("fit, features |\nscore", "fit, features | score")
    text += "\n".join(lines)
    text += """

Metrics, over the number of scores, and what 10⁹ scores would take on one core if the
trend continues (a prediction, except for `Sketch`, which was
[run](../benchmarks/README.md)):

| | slope over n | a score, at 2²⁰ | 10⁹ scores, predicted |
|---|---|---|---|
"""
    text += "\n".join(of_metrics())
    put_section("slopes", text, PAGE)


def peak_mb() -> float:
    """Return the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(function: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result, and wall and processor time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
    }


def choose(n: int, classes: int, features: int, out: Path) -> None:
    """Fit, score and choose at this size; continue what a file holds."""
    path = out / "choosing_cost.json"
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"shape": [n, classes, features], "machine": machine()}
    if path.exists() and json.loads(path.read_text())["shape"] == found["shape"]:
        found = json.loads(path.read_text())
    train = made_up(N_TRAIN, classes, features)
    calibration = made_up(n, classes, features, seed=1)
    known = calibration.take(slice(0, n // 2))
    unknown = calibration.take(slice(n // 2, None)).as_unknown()
    found["data_mb"] = peak_mb()
    fitted: dict[str, Fitted] = {}
    for name in CANDIDATES:
        fitted[name], fitting = timed(lambda name=name: make(name).fit(train))
        if name not in found:
            _, scoring = timed(lambda name=name: fitted[name].known(calibration))
            found[name] = {"fit": fitting, "score": scoring, "peak_mb": peak_mb()}
            print(name, json.dumps(found[name]), flush=True)
            path.write_text(json.dumps(found, indent=1))
    for label, some in (
        ("suitable four", selection.suitable(train).names),
        ("all eighteen", CANDIDATES),
    ):
        offered = {name: fitted[name] for name in some}
        _, taken = timed(
            lambda offered=offered: selection.choose(
                offered, known=known, surrogate=unknown
            )
        )
        found[label] = taken | {"peak_mb": peak_mb()}
        print(label, json.dumps(found[label]), flush=True)
        path.write_text(json.dumps(found, indent=1))
    put_section("choosing", choosing(found), PAGE)


def choosing(found: dict[str, Any]) -> str:
    """Write what choosing costs as text with a table."""
    n, classes, features = found["shape"]
    costly = sorted(CANDIDATES, key=lambda name: -found[name]["score"]["cpu"])[:4]
    listed = ", ".join(
        f"{name} {found[name]['score']['wall']:.1f} s" for name in costly
    )
    rows = "\n".join(
        f"| {label} | {found[key]['wall']:.0f} s | {found[key]['cpu']:.0f} s |"
        for label, key in (
            ("the default detectors (four here)", "suitable four"),
            ("eighteen detectors", "all eighteen"),
        )
    )
    peak, data = found["all eighteen"]["peak_mb"] / 1024, found["data_mb"] / 1024
    return f"""`python benchmarks/scaling.py --choose` on {found["machine"]}:
`selection.choose` among fitted detectors, with {n:,} calibration samples, {classes}
classes and {features} features (random numbers, float32, half of them unknown; fitted
on {N_TRAIN:,} samples).

| chosen among | wall time | processor time |
|---|---|---|
{rows}

Peak memory of the process: {peak:.1f} GB, of which {data:.1f} GB were needed to
generate the data. Scoring takes nearly all of the time; the slowest: {listed}."""


def cells() -> None:
    """Run studies of more and more cells, and once more with nothing left to do."""
    rows = []
    labels = ("a whole run", "the same command again")
    seconds: dict[str, list[float]] = {label: [] for label in labels}
    for n_seeds in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            study = Path(folder) / "study.yaml"
            study.write_text(STUDY.format(seeds=n_seeds))
            for label in labels:
                _, taken = timed(
                    lambda s=study, f=folder: bench.run(s, out=Path(f), jobs=1)
                )
                seconds[label].append(taken["cpu"])
                print(n_seeds, label, json.dumps(taken), flush=True)
    n_cells = [6 * n for n in SEEDS]
    for label, taken in seconds.items():
        slope = np.polyfit(np.log(n_cells), np.log(taken), 1)[0]
        each = (taken[-1] - taken[0]) / (n_cells[-1] - n_cells[0])
        hours = each * 1e6 / 3600
        rows.append(f"| {label} | {slope:.2f} | {1e3 * each:.1f} ms | {hours:.1f} h |")
    text = f"""`python benchmarks/scaling.py --cells` on {machine()}: one network
(logistic regression on handwritten digits) and six detectors for each seed,
{n_cells[0]} to {n_cells[-1]} cells, in one process. Processor time.

| a study | slope over cells | a cell | 10⁶ cells on one core, predicted |
|---|---|---|---|
"""
    put_section("cells", text + "\n".join(rows), PAGE)


def main() -> None:
    """Measure one of the three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", nargs="*", type=int)
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.cells:
        with threadpool_limits(1):
            cells()
        return
    if args.choose is None:
        with threadpool_limits(1):  # waiting threads would count as processor time
            slopes()
        return
    choose(*(args.choose or (50_000, 1000, 2048)), args.out)


if __name__ == "__main__":
    main()
