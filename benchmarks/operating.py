"""Whether a threshold holds on unknowns of a kind nobody has shown it.

For real network outputs, those of networks that `train_networks.py` has trained, and
those of small networks trained here (`_networks.py`), every kind of unknowns is left
out in turn: detector, objective and threshold are chosen on validation knowns and the
*other* kinds, then applied to test knowns and the kind left out. Reported: operational
open-set accuracy, its oracle (the best threshold for that very test set and detector)
and the gap.

    OPENSET_DATA=... python benchmarks/operating.py --networks FOLDER

writes every case to benchmarks/results/choosing.csv, and the table with a row per
network to docs/results/choosing.md (without --networks the latter alone, from the
file). The data are those of `packaged_data.py`.
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import _networks
import numpy as np
import packaged_data
from sklearn.linear_model import LogisticRegression
from train_networks import SEEDS

from openset import Outputs, Rejector, detectors, selection
from openset.detectors import Fitted

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "choosing.md"
CASES = ROOT / "benchmarks" / "results" / "choosing.csv"

# Every detector of the package that fits in seconds here; absent ones are skipped.
# Picked by price, not by outcome: EVM and the two SVMs need minutes.
CANDIDATES = (
    *("msp", "maxlogit", "energy", "gen", "postmax", "openmax"),
    *("nnguide", "scale", "ash", "react", "vim", "knn"),
    *("mahalanobis", "rmds", "fdbd", "nci", "osnn", "nno"),
)

ALPHA = 0.5
OBJECTIVES = ("osa", "worst_group")
"""Weight of the known side, to choose and to report: no side is favoured."""

WITHIN = 0.02
"""The aim: gaps of at most two points in nine of ten cases."""

RUNS = {
    "classifier32, MNIST 0–5": ("mnist", _networks.mnist),
    "classifier32, CIFAR-10, six classes": ("cifar10", _networks.cifar),
    "classifier32, SVHN 0–5": ("svhn", _networks.svhn),
}
SMALL = {
    "small CNN, MNIST 0–5": (_networks.mnist, 2),
    "small CNN, CIFAR-10, six classes": (_networks.cifar, 6),
    "small CNN, SVHN 0–5": (_networks.svhn, 4),
}
"""Problems, and epochs."""


def imagenet(data: Any) -> dict[str, Outputs]:
    """Give an ImageNet network's outputs, with its own splits and kinds of unknowns."""
    parts = data.outputs("imagenet_lite0")
    head = parts.pop("head")
    made = {name: Outputs(**part, **head) for name, part in parts.items()}
    return {
        "train": made["fit"],
        "known": made["calibration"],
        "surrogate": made["surrogate"],
        "test_known": made["test_known"],
        "test_unknown": made["test_unknown"],
    }


def clinc(data: Any) -> dict[str, Outputs]:
    """Give a linear head on sentence embeddings, four of ten domains never taught.

    The four (first by name) and the out-of-scope sentences are five kinds of unknowns.
    """
    parts = data.outputs("clinc150_minilm")
    names = data.load("clinc150")
    place = {intent: i for i, intent in enumerate(names["class_names"])}
    domains = names["domains"]
    untaught = sorted(domains)[:4]
    kind = np.full(len(place) + 1, "", dtype="U32")  # the last: out of scope
    kind[-1] = "out of scope"
    for domain in untaught:
        kind[[place[intent] for intent in domains[domain]]] = domain
    taught = np.flatnonzero(kind == "")
    label = np.full(len(place) + 1, -1)
    label[taught] = np.arange(taught.size)
    train = parts["train"]
    keep = label[train["labels"]] >= 0
    model = LogisticRegression(C=10.0, max_iter=2000)
    model.fit(train["features"][keep], label[train["labels"]][keep])
    weight = model.coef_.astype(np.float32)
    bias = model.intercept_.astype(np.float32)

    def outputs(name: str, *, known: bool) -> Outputs:
        part = parts[name]
        found = label[part["labels"]]
        rows = (found >= 0) == known
        features = part["features"][rows]
        return Outputs(
            features=features,
            logits=features @ weight.T + bias,
            labels=found[rows],
            groups=kind[part["labels"]][rows],
            weight=weight,
            bias=bias,
        )

    scope = outputs("oos_train", known=False)
    return {
        "train": outputs("train", known=True),
        "known": outputs("val", known=True),
        "surrogate": Outputs.concat([outputs("val", known=False), scope]),
        "test_known": outputs("test", known=True),
        "test_unknown": outputs("test", known=False),
    }


def cases(network: str, parts: dict[str, Outputs]) -> list[dict[str, Any]]:
    """Leave out every kind of unknowns of the test set in turn."""
    train, known = parts["train"], parts["known"]
    fitted = offered(network, train)
    rows = []
    for left_out in np.unique(parts["test_unknown"].groups):
        surrogate = parts["surrogate"]
        surrogate = surrogate.take(surrogate.groups != left_out)
        strange = parts["test_unknown"]
        strange = strange.take(strange.groups == left_out)
        test = Outputs.concat([parts["test_known"], strange])
        choice = selection.choose(
            fitted, known=known, surrogate=surrogate, objectives=OBJECTIVES, alpha=ALPHA
        )
        rejector = Rejector.calibrate(choice, known=known, surrogate=surrogate)
        done = rejector.operate(test, alpha=ALPHA)
        counts = len(known) / (len(known) + len(surrogate))
        other = selection.choose(
            fitted,
            known=known,
            surrogate=surrogate,
            objectives=OBJECTIVES,
            alpha=counts,
        )
        by_counts = Rejector.calibrate(other, known=known, surrogate=surrogate)
        rows.append(
            {
                "network": network,
                "left out": str(left_out),
                "choice": f"{choice.name}, {choice.objective}",
                "oosa": done.oosa,
                "low": done.interval.low,
                "high": done.interval.high,
                "oracle": done.oracle,
                "gap": done.gap,
                "gap by counts": by_counts.operate(test).gap,
                "gap with it": with_it(choice, known, parts["surrogate"], test),
                "codes": " ".join(rejector.report.codes),
                **plain(fitted, known, surrogate, test),
            }
        )
        print(rows[-1], flush=True)
    return rows


def with_it(
    choice: selection.Choice, known: Outputs, surrogate: Outputs, test: Outputs
) -> float:
    """Give the gap if nothing is left out: what one threshold for all kinds costs."""
    rejector = Rejector.calibrate(choice, known=known, surrogate=surrogate)
    return rejector.operate(test, alpha=ALPHA).gap


def offered(network: str, train: Outputs) -> dict[str, Fitted]:
    """Fit every candidate; one that cannot be fitted on a network says why."""
    fitted = {}
    for name in CANDIDATES:
        if name in detectors.names():
            try:
                fitted[name] = detectors.make(name).fit(train)
            except ValueError as error:
                print(f"{network}: without {name} ({error})", flush=True)
    return fitted


def plain(
    fitted: dict[str, Fitted], known: Outputs, surrogate: Outputs, test: Outputs
) -> dict[str, float]:
    """Give what one fixed detector reaches with the threshold of the paper."""
    found = {}
    for name in ("msp", "postmax"):
        rejector = Rejector.calibrate(
            fitted[name], known=known, surrogate=surrogate, alpha=ALPHA
        )
        done = rejector.operate(test, alpha=ALPHA)
        found[f"{name} oosa"], found[f"{name} gap"] = done.oosa, done.gap
    return found


def introduction(available: list[str]) -> str:
    """Say what the table shows."""
    return (
        f"`python benchmarks/operating.py`: α = {ALPHA}; candidate detectors: "
        f"{', '.join(available)}. Means over the cases of a network. *Within*: cases "
        f"whose OOSA is within {WITHIN:g} of the oracle. *With it*: the same, "
        "calibrated with the tested kind, too. MSP and PostMax: OOSA with that "
        "detector and `thresholds.osa`. [Every "
        "case](../../benchmarks/results/choosing.csv), also with α by counts."
    )


def markdown(rows: list[dict[str, Any]]) -> str:
    """Write a table for people, with a row per network."""
    lines = [
        "| network | cases | OOSA | oracle | within | with it | MSP | PostMax |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for network in dict.fromkeys(row["network"] for row in rows):
        mine = [row for row in rows if row["network"] == network]
        means = [
            f"{np.mean([float(row[key]) for row in mine]):.3f}"
            for key in ("oosa", "oracle", "msp oosa", "postmax oosa")
        ]
        good = [
            sum(float(row[key]) <= WITHIN for row in mine)
            for key in ("gap", "gap with it")
        ]
        cells = [network, len(mine), *means[:2], *good, *means[2:]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def save(rows: list[dict[str, Any]]) -> None:
    """Write every case."""
    fields = [key for key in rows[0] if key != "codes"]
    with CASES.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(
            stream, fields, extrasaction="ignore", lineterminator="\n"
        )
        writer.writeheader()
        for row in rows:
            shown = {
                k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()
            }
            writer.writerow(shown)


def put(text: str) -> None:
    """Replace the section of docs/results/choosing.md between its two marks."""
    first, last = "<!-- operating: start -->", "<!-- operating: end -->"
    page = PAGE.read_text()
    head, rest = page.split(first, 1)
    tail = rest.split(last, 1)[1]
    PAGE.write_text(f"{head}{first}\n{text}\n{last}{tail}")


def accuracy(name: str, parts: dict[str, Outputs]) -> None:
    """Say how good a network is at what it knows."""
    known = parts["test_known"]
    right = (known.logits.argmax(axis=1) == known.labels).mean()
    sizes = {part: len(one) for part, one in parts.items()}
    print(f"{name}: closed-set accuracy {right:.3f}, samples {sizes}", flush=True)


def main() -> None:
    """Run every case, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=Path)
    args = parser.parse_args()
    available = [name for name in CANDIDATES if name in detectors.names()]
    if args.networks is None:
        with CASES.open(newline="", encoding="utf-8") as stream:
            put(
                f"{introduction(available)}\n\n{markdown(list(csv.DictReader(stream)))}"
            )
        return
    data = packaged_data.reader()
    rows = cases("EfficientNet-Lite0, ImageNet", imagenet(data))
    rows += cases("MiniLM + linear head, CLINC150", clinc(data))
    for name, (folder, make) in RUNS.items():
        for seed in SEEDS:
            parts = _networks.of_run(make(data), args.networks / f"{folder}-{seed}")
            title = f"{name}, seed {seed}"
            accuracy(title, parts)
            rows += cases(title, parts)
    weak = []
    for name, (make, epochs) in SMALL.items():
        parts = _networks.of_small(make(data), epochs=epochs)
        accuracy(name, parts)
        weak += cases(name, parts)
    text = f"""{introduction(available)}

{markdown(rows + weak)}"""
    save(rows + weak)
    print(text)
    for name in dict.fromkeys(row["network"] for row in rows + weak):
        mine = [row for row in rows + weak if row["network"] == name]
        oosa, gap = (np.mean([row[k] for row in mine]) for k in ("oosa", "gap"))
        good = sum(row["gap"] <= WITHIN for row in mine)
        print(f"{name}: {good} of {len(mine)}, OOSA {oosa:.3f}, gap {gap:.3f}")
    for code in sorted({row["codes"] for row in rows + weak}):
        mine = [row for row in rows + weak if row["codes"] == code]
        good = sum(row["gap"] <= WITHIN for row in mine)
        print(f"calibration said {code or 'nothing'}: {good} of {len(mine)}")
    put(text)


if __name__ == "__main__":
    main()
