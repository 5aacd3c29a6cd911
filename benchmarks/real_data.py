"""Every detector on four real problems, per group: docs/results/detectors.md.

    OPENSET_DATA=folder python benchmarks/real_data.py

The folder is that of `packaged_data.py`. Nothing is tuned: every detector has its
default parameters.
"""

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import packaged_data
from _measure import machine
from numpy.typing import NDArray
from packaged_data import DATA
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import openset as ops
from openset import UNKNOWN, Outputs
from openset.metrics import Evaluation

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "detectors.md"
ALL_COLUMNS = ROOT / "benchmarks" / "results" / "detectors_compared.csv"
SHOWN = ("OpenAUC", "AUROC", "FPR95 k", "CCR@.1", "95 % of OpenAUC", "s")


@dataclass(frozen=True)
class Problem:
    """A trained network's outputs on training and test samples."""

    name: str
    what: str
    train: Outputs
    test: Outputs


def imagenet() -> Problem:
    """EfficientNet-Lite0 with 1000 ImageNet classes; ten of them are tested."""
    found = packaged_data.outputs("imagenet_lite0")
    head = found.pop("head")
    parts = {name: Outputs(**part, **head) for name, part in found.items()}
    return Problem(
        "ImageNet",
        "EfficientNet-Lite0, 1000 classes, ten of which (Imagenette) occur in "
        "the test; unknown: birds (near), textures, house numbers, glyphs and "
        "characters",
        parts["fit"],
        Outputs.concat([parts["test_known"], parts["test_unknown"]]),
    )


def clinc() -> Problem:
    """MiniLM sentence embeddings with a linear head."""
    found = packaged_data.outputs("clinc150_minilm")
    x = {part: found[part]["features"] for part in ("train", "test")}
    y = {part: found[part]["labels"] for part in ("train", "test")}
    head = LogisticRegression(C=10.0, max_iter=1000).fit(x["train"], y["train"])
    weight, bias = (a.astype(np.float32) for a in (head.coef_, head.intercept_))

    def part(name: str) -> Outputs:
        return Outputs(
            logits=x[name] @ weight.T + bias,
            features=x[name],
            labels=y[name],
            groups=np.where(y[name] == UNKNOWN, "out of scope", ""),
            weight=weight,
            bias=bias,
        )

    return Problem(
        "CLINC150",
        "MiniLM embeddings (unit length) and a logistic-regression head, 150 intents; "
        "unknown: out-of-scope queries",
        part("train"),
        part("test"),
    )


def network_outputs(
    x: NDArray[np.float32], y: NDArray[np.int64], *, hidden: tuple[int, ...]
) -> MLPClassifier:
    """Train a small network (fixed seed, fixed epochs)."""
    network = MLPClassifier(
        hidden, alpha=1e-4, max_iter=40, random_state=0, n_iter_no_change=1000
    )
    import warnings

    with warnings.catch_warnings():  # the number of epochs is meant
        warnings.simplefilter("ignore")
        return network.fit(x, y)


def outputs(
    network: MLPClassifier,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    groups: NDArray[np.str_],
) -> Outputs:
    """Push inputs through the layers, keeping the last features."""
    features = x
    for weight, bias in zip(network.coefs_[:-1], network.intercepts_, strict=False):
        features = np.maximum(features @ weight + bias, 0)
    weight, bias = network.coefs_[-1].T, network.intercepts_[-1]
    return Outputs(
        logits=(features @ weight.T + bias).astype(np.float32),
        features=features.astype(np.float32),
        labels=y,
        groups=groups,
        weight=weight.astype(np.float32),
        bias=bias.astype(np.float32),
    )


def letters() -> Problem:
    """UCI letters: 16 known, 10 unknown, drawn with seed 0."""
    data = ops.datasets.load("letter", root=DATA)
    protocol = ops.protocols.holdout(data, n_known=16, n_unknown=10, rng=0)
    cut = ops.datasets.cut(data, protocol)
    mean, spread = cut.train.inputs.mean(axis=0), cut.train.inputs.std(axis=0)

    def scaled(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return ((x - mean) / spread).astype(np.float32)

    network = network_outputs(
        scaled(cut.train.inputs), cut.train.labels, hidden=(128, 64)
    )
    test = cut.test
    groups = np.where(test.labels == UNKNOWN, "other letters", "")
    return Problem(
        "Letters",
        "UCI letter recognition, a 128-64 network; 16 known and 10 unknown letters "
        f"(protocol {protocol.hash[:12]})",
        outputs(
            network,
            scaled(cut.train.inputs),
            cut.train.labels,
            np.full(len(cut.train.labels), ""),
        ),
        outputs(network, scaled(test.inputs), test.labels, groups),
    )


def mnist() -> Problem:
    """MNIST known; notMNIST letters and Omniglot characters unknown."""
    known = ops.datasets.load("mnist", root=DATA)
    rng = np.random.default_rng(0)
    train, test = known.part("train"), known.part("test")
    rows = rng.permutation(len(train.labels))[:20000]

    def flat(x: NDArray[np.uint8]) -> NDArray[np.float32]:
        return x.reshape(len(x), -1).astype(np.float32) / 255

    x, y = flat(train.inputs[rows]), train.labels[rows]
    network = network_outputs(x, y, hidden=(256, 128))
    unknown = {
        "notMNIST": packaged_data.notmnist(DATA).part("test").inputs,
        "Omniglot": ops.datasets.load("omniglot28", root=DATA).part("test").inputs,
    }
    parts = [outputs(network, flat(test.inputs), test.labels, np.full(10000, ""))]
    for name, images in unknown.items():
        chosen = images[rng.permutation(len(images))[:5000]]
        labels = np.full(len(chosen), UNKNOWN)
        parts.append(outputs(network, flat(chosen), labels, np.full(len(chosen), name)))
    return Problem(
        "MNIST",
        "a 256-128 network on 20 000 MNIST digits; unknown: 5 000 notMNIST letters and "
        "5 000 Omniglot characters",
        outputs(network, x, y, np.full(len(y), "")),
        Outputs.concat(parts),
    )


PROBLEMS = {"imagenet": imagenet, "clinc": clinc, "letters": letters, "mnist": mnist}

# Methods that compare all training samples with each other fit on a subsample.
FIT_AT_MOST = {"evm": 4000, "wsvm": 4000, "pisvm": 4000}


def study(
    problem: Problem,
) -> tuple[dict[str, dict[str, Evaluation]], dict[str, float]]:
    """Evaluate every detector, on all unknowns and per group."""
    rows: dict[str, dict[str, Evaluation]] = {}
    times: dict[str, float] = {}
    rng = np.random.default_rng(0)
    for name in track(ops.detectors.names(), description=problem.name, transient=True):
        train = problem.train
        if len(train) > FIT_AT_MOST.get(name, len(train)):
            train = train.take(rng.permutation(len(train))[: FIT_AT_MOST[name]])
        start = time.perf_counter()
        try:
            scores = ops.detectors.make(name).fit(train).score(problem.test)
        except ValueError as error:
            print(f"{problem.name} {name}: {error}")
            continue
        times[name] = time.perf_counter() - start
        print(f"{problem.name} {name}: {times[name]:.1f} s", flush=True)
        rows[name] = {"all": ops.evaluate(scores)}
        found = ops.metrics.by_group(scores)
        if len(found) > 1:
            rows[name] |= found
    return rows, times


def best(values: dict[str, float], *, lower: bool = False) -> dict[str, str]:
    """Write numbers, the best in bold."""
    top = (min if lower else max)(values.values())
    return {
        name: f"**{value:.3f}**" if value == top else f"{value:.3f}"
        for name, value in values.items()
    }


COLUMNS = {
    "OpenAUC": ("openauc", False),
    "pOpenAUC": ("partial_openauc", False),
    "AUROC": ("auroc", False),
    "AUPR u": ("aupr_unknown", False),
    "FPR95 k": ("fpr_at_tpr", True),
    "FPR95 u": ("fpr_at_tpr_unknown", True),
    "CCR@.1": ("ccr_at_fpr_0.1", False),
    "CCR@.01": ("ccr_at_fpr_0.01", False),
    "OSA*": ("osa_best", False),
    "F* micro": ("f_score_micro_best", False),
    "Overall*": ("overall_score_best", False),
}


def lengths(problem: Problem) -> str:
    """Say how long features are, known and unknown: what PostMax divides by."""
    norms = np.linalg.norm(problem.test.features, axis=1)
    is_known = problem.test.labels != UNKNOWN
    names = np.where(is_known, "known", problem.test.groups)
    order = ["known", *sorted(set(names[~is_known]))]
    parts = [f"{name} {np.median(norms[names == name]):.2f}" for name in order]
    return f"Median length of the features: {', '.join(parts)}."


def table(
    rows: dict[str, dict[str, Evaluation]], times: dict[str, float]
) -> dict[str, dict[str, str]]:
    """Return every number, column -> detector -> text."""
    groups = [group for group in next(iter(rows.values())) if group != "all"]
    columns = {
        title: best({n: row["all"][key] for n, row in rows.items()}, lower=lower)
        for title, (key, lower) in COLUMNS.items()
    }
    columns |= {
        f"AUROC {group}": best({n: row[group]["auroc"] for n, row in rows.items()})
        for group in groups
    }
    spans = {n: row["all"].intervals["openauc"] for n, row in rows.items()}
    columns["95 % of OpenAUC"] = {
        n: f"{span.low:.3f}–{span.high:.3f}" for n, span in spans.items()
    }
    columns["s"] = {name: f"{times[name]:.1f}" for name in rows}
    return columns


def section(
    problem: Problem,
    rows: dict[str, dict[str, Evaluation]],
    columns: dict[str, dict[str, str]],
) -> str:
    """Write one problem's table, with the columns that most readers want."""
    whole = next(iter(rows.values()))["all"]
    lines = [
        f"### {problem.name}",
        "",
        f"{problem.what}. Accuracy {whole['accuracy']:.3f} on {whole.n_known} known "
        f"test samples, {whole.n_unknown} unknown, {len(problem.train)} to fit on. "
        f"{lengths(problem)}",
        "",
        "| | " + " | ".join(SHOWN) + " |",
        "|---|" + "---:|" * len(SHOWN),
    ]
    for name in sorted(rows, key=lambda n: -rows[n]["all"]["openauc"]):
        cells = " | ".join(columns[title][name] for title in SHOWN)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def save(tables: dict[str, dict[str, dict[str, str]]]) -> None:
    """Write every column of every problem."""
    found = []
    for problem, columns in tables.items():
        for name in columns["OpenAUC"]:
            row = {"problem": problem, "detector": name}
            row |= {title: one[name].strip("*") for title, one in columns.items()}
            span = row.pop("95 % of OpenAUC").split("–")
            found.append(row | {"OpenAUC low": span[0], "OpenAUC high": span[1]})
    fields = dict.fromkeys(key for row in found for key in row)
    with ALL_COLUMNS.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(fields), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def main() -> None:
    """Run the problems and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    arguments = parser.parse_args()
    sections, tables = [], {}
    for name in arguments.problems:
        problem = PROBLEMS[name]()
        rows, times = study(problem)
        tables[problem.name] = table(rows, times)
        sections.append(section(problem, rows, tables[problem.name]))
        print(sections[-1], flush=True)
    if set(arguments.problems) == set(PROBLEMS):
        save(tables)
        first, last = "<!-- table: start -->", "<!-- table: end -->"
        page = PAGE.read_text()
        head, rest = page.split(first, 1)
        made = f"Computed by `python benchmarks/real_data.py` on {machine()}."
        body = "\n\n".join([made, *sections])
        PAGE.write_text(f"{head}{first}\n{body}\n{last}{rest.split(last, 1)[1]}")


if __name__ == "__main__":
    main()
