"""Draw the figures of the pages from the results: python benchmarks/figures.py."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import openset as ops

RESULTS = Path(__file__).with_name("results")
FIGURES = RESULTS.parents[1] / "docs" / "figures"
BLUE, ORANGE, GREY = "#3b6fb6", "#d1603d", "#9aa0a6"
mpl.use("svg")
mpl.rcParams |= {
    "svg.hashsalt": "openset",  # the same numbers draw the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def rows(name: str) -> list[dict[str, Any]]:
    """Read the rows of a claim."""
    text = (RESULTS / f"{name}.json").read_text("utf-8")
    return list(json.loads(text)["rows"])


def save(name: str) -> None:
    """Write the figure, without the time."""
    path = FIGURES / f"{name}.svg"
    plt.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close()


def softmax() -> None:
    """Compare rules by the share of unknown samples that they reject."""
    found, rules = (
        rows("choosing"),
        {
            "softmax_0.5_urr": ("softmax ≥ 0.5", GREY),
            "softmax_0.9_urr": ("softmax ≥ 0.9", ORANGE),
            "auto_urr": ("chosen by openset", BLUE),
        },
    )
    _, axes = plt.subplots(figsize=(7, 2.6))
    for i, (key, (label, colour)) in enumerate(rules.items()):
        at = np.arange(len(found)) + 0.27 * (i - 1)
        axes.bar(at, [100 * r[key] for r in found], 0.25, color=colour, label=label)
    axes.set_xticks(range(len(found)), [r["table"] for r in found])
    axes.set(ylabel="unknown samples\nrejected, %", ylim=(0, 100))
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    save("softmax")


def knownness() -> None:
    """Show the scores of known and unknown digits, and the threshold."""
    parts = ops.demo()
    fitted = ops.detectors.MaxLogit().fit(parts.train)
    pair = {"known": parts.validation, "surrogate": parts.surrogate}
    threshold = float(ops.Rejector.calibrate(fitted, **pair).threshold.value)
    _, axes = plt.subplots(figsize=(7, 2.4))
    for part, colour in (("test", BLUE), ("unseen", ORANGE)):
        values = fitted.score(getattr(parts, part)).known
        label = {"test": "known digits", "unseen": "digits never seen"}[part]
        axes.hist(values, np.linspace(0, 12, 49), color=colour, alpha=0.7, label=label)
    axes.axvline(threshold, color="black", linestyle="--")
    axes.annotate("threshold: accepted →", (threshold + 0.1, 52))
    axes.set(xlabel="knownness (largest logit)", ylabel="images", ylim=(0, 60))
    axes.legend()
    save("knownness")


def compared() -> None:
    """Show each detector on four problems, ordered by the mean."""
    found = rows("archive/detectors-compared")
    of: dict[str, dict[str, float]] = {}
    for row in found:
        of.setdefault(row["detector"], {})[row["problem"]] = row["OpenAUC"]
    order = sorted(of, key=lambda name: -np.mean(list(of[name].values())))
    _, axes = plt.subplots(figsize=(7, 3))
    for problem, mark in zip(of[order[0]], "osD^", strict=True):
        axes.plot(order, [of[n][problem] for n in order], mark, ms=4, label=problem)
    axes.tick_params(axis="x", rotation=90)
    axes.set(ylabel="OpenAUC")
    axes.grid(axis="x", alpha=0.2)
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    save("detectors-compared")


def bars(name: str, labels: list[str], values: list[float], **options: Any) -> None:
    """Draw horizontal bars, the first on top."""
    _, axes = plt.subplots(figsize=(7, 0.17 * len(labels) + 0.6))
    error = options.pop("error", None)
    axes.barh(labels, values, color=options.pop("color", BLUE), xerr=error)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.tick_params(axis="y", labelsize=8)
    axes.set(**options)
    if options.get("xscale") == "log":
        axes.axvline(1, color="black", lw=0.8)
    save(name)


def ranks() -> None:
    """Show mean ranks over all families."""
    found = rows("archive/ranks")
    names = [row["case"] for row in found]
    colours = [ORANGE if "+" in name else BLUE for name in names]
    label = "mean rank over 15 families, 1 is best (orange: four or more combined)"
    mean = [row["all (15)"] for row in found]
    bars("detector-ranks", names, mean, color=colours, xlabel=label)


def recipes() -> None:
    """Show gains over CE+ at equal cost."""
    gained = [
        row
        for row in rows("recipes")
        if row.get("maxlogit_gain") and not row["inner"] and row["maxlogit"][0] > 86
    ]
    names = [f"{r['variant']}, {r['data']}, {r['budget']:.0f} passes" for r in gained]
    value, error = zip(*(row["maxlogit_gain"] for row in gained), strict=True)
    colours = [BLUE if row["variant"] == "openset" else GREY for row in gained]
    label = "OpenAUC gained over CE+, points (95 % interval over splits)"
    bars("recipes", names, value, error=error, color=colours, xlabel=label)


def speed() -> None:
    """Show how much longer pytorch-ood takes to score."""
    ratio = {
        place: {
            row["method"]: float(str(row["score, ratio"]).split()[0].strip(","))
            for row in rows(name)
            if "score, ratio" in row
        }
        for place, name in (("one CPU core", "peers"), ("H200", "peers-cuda"))
    }
    _, axes = plt.subplots(figsize=(7, 2.6))
    for place, mark in zip(ratio, "o^", strict=True):
        axes.plot(*zip(*ratio[place].items(), strict=True), mark, ms=5, label=place)
    axes.axhline(1, color="black", lw=0.8)
    axes.set(yscale="log", ylabel="pytorch-ood's time\nover ours, to score")
    axes.tick_params(axis="x", rotation=90)
    axes.legend()
    save("speed")


for draw in (softmax, knownness, compared, ranks, recipes, speed):
    draw()
