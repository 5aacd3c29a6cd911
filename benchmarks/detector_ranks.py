"""Which detectors are worth having: ranks over data sets, by kind of unknowns.

    OPENSET_DATA=... python benchmarks/detector_ranks.py make
    python benchmarks/detector_ranks.py show --write

`make` trains small networks on the families of data of `_kinds.py`, scores test samples
with every detector at its default parameters, and keeps OpenAUC and AUROC of each kind
of unknowns in results/detector_ranks.json; networks that are in the file are not made
again. Known classes are drawn with numbers from 300 on: no other benchmark, and no rule
of the package, was settled or shown on these networks.

`show` ranks the detectors. One family of data is one problem (the mean over its
networks and kinds of unknowns), since networks of one family are not independent. It
writes the table of docs/results/ranks.md and the figure beside it.

Left out are EVM, W-SVM and PI-SVM, which need minutes. Rows named "a+b+c" are the mean
rank that several detectors give, which is how `selection.choose` combines them; the
first one is the set in use, the others change one member of it.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import _kind_networks
import _kinds
import numpy as np
import packaged_data
from _measure import machine, put_section
from numpy.typing import NDArray

from openset import Scores, detectors, metrics, report, stats
from openset.selection.choose import MEMBERS
from openset.selection.synthetic import mean_rank

ROOT = Path(__file__).resolve().parents[1]
STORE = Path(__file__).with_name("results") / "detector_ranks.json"
PAGE = ROOT / "docs" / "results" / "ranks.md"
FIGURE = ROOT / "docs" / "figures" / "detector-ranks.png"
FIRST_DRAW = 300
LEFT_OUT = ("evm", "wsvm", "pisvm")
LEAST_ACCURACY = 0.6  # of a network worth ranking detectors on

# Fixed before the first network was made: the set in use, and one change each.
SETS = (
    MEMBERS,
    ("klm", "rmds", "vim", "osnn"),
    ("msp", "gmm", "vim", "osnn"),
    ("msp", "rmds", "residual", "osnn"),
    ("msp", "rmds", "vim", "knn"),
    (*MEMBERS, "core"),
)

OTHER_DATA = (
    *("letters", "characters", "house numbers", "digits", "photographs"),
    *("food and places", "out of scope", "other bank", "other intents"),
    *("birds", "textures", "glyphs"),
)
"""Kinds of unknowns from other data; all others are classes of the same data."""

Row = dict[str, Any]


def scores_of(
    problem: _kinds.Problem, network: _kind_networks.Network
) -> tuple[dict[str, dict[str, NDArray[Any]]], NDArray[np.bool_]]:
    """Score validation and test samples, and every kind, with every detector."""
    train = network.outputs(*problem.train)
    test = network.outputs(*problem.test)
    parts = {"known": network.outputs(*problem.known), "test": test}
    for kind, (_, x) in problem.kinds.items():
        parts[f"unknown {kind}"] = network.outputs(x, np.full(len(x), -1))
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for name in detectors.names():
        if name in LEFT_OUT:
            continue
        try:
            fitted = detectors.make(name).fit(train)
            found[name] = {part: fitted.known(one) for part, one in parts.items()}
        except ValueError as error:
            print(f"  {problem.name}: without {name} ({error})", flush=True)
    for members in SETS:
        fit = [found[name] for name in members if name in found]
        found["+".join(members)] = consensus(fit)
    is_right = test.logits.argmax(axis=1) == test.labels
    return found, np.asarray(is_right)


def consensus(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Average the ranks among the known samples that are there to calibrate with."""
    known = np.stack([one["known"] for one in parts], axis=1)
    return {
        part: mean_rank(known, np.stack([one[part] for one in parts], axis=1))
        for part in parts[0]
    }


def rows_of(problem: _kinds.Problem, kind: str) -> list[Row]:
    """Train one network and measure every detector on every kind of unknowns."""
    network = _kind_networks.trained(problem, kind)
    found, is_right = scores_of(problem, network)
    rows = []
    for unknown in problem.kinds:
        for name, values in found.items():
            n = len(values[f"unknown {unknown}"])
            scores = Scores(
                labels=np.append(np.where(is_right, 0, 1), np.full(n, -1)),
                predicted=np.zeros(is_right.size + n, dtype=np.int64),
                known=np.append(values["test"], values[f"unknown {unknown}"]),
            )
            rows.append(
                {
                    "family": problem.family,
                    "network": f"{problem.name}_{kind}",
                    "accuracy": round(float(is_right.mean()), 4),
                    "unknown": unknown,
                    "detector": name,
                    "openauc": round(metrics.openauc(scores), 4),
                    "auroc": round(metrics.auroc(scores), 4),
                }
            )
    return rows


def make(families: Iterable[str], draws: int) -> None:
    """Make what is missing, and save after every network."""
    data = packaged_data.reader()
    rows = stored()
    done = {row["network"] for row in rows}
    for family in families:
        for number, problem in enumerate(_kinds.problems(data, family, FIRST_DRAW)):
            if number >= draws:
                break
            for kind in problem.networks:
                if f"{problem.name}_{kind}" in done:
                    continue
                start = time.perf_counter()
                rows += rows_of(problem, kind)
                save(rows)
                taken = time.perf_counter() - start
                print(f"{problem.name}_{kind}: {taken:.0f} s", flush=True)


def stored() -> list[Row]:
    """Read what was made before."""
    if not STORE.exists():
        return []
    table = json.loads(STORE.read_text())
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def save(rows: list[Row]) -> None:
    """Write all rows: a list of columns, then a line for each row."""
    STORE.parent.mkdir(exist_ok=True)
    columns = list(rows[0])
    lines = ",\n".join(json.dumps(list(row.values())) for row in rows)
    text = f'{{"columns": {json.dumps(columns)},\n"rows": [\n{lines}\n]}}\n'
    other = STORE.with_suffix(".part")
    other.write_text(text)
    other.replace(STORE)


def domain_of(family: str) -> str:
    """Name the domain of a family."""
    return next(name for name, named in _kinds.DOMAINS.items() if family in named)


def is_other_data(row: Row) -> bool:
    """Tell unknowns of other data from classes of the same data."""
    return row["unknown"] in OTHER_DATA


def table_of(rows: list[Row], metric: str) -> dict[str, list[float]]:
    """Average over networks and kinds of a family.

    A detector that cannot be fitted to a network shares the last place there: it gets
    the smallest value that another one has.
    """
    cases: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        case = row["family"], row["network"], row["unknown"]
        cases[case][row["detector"]] = row[metric]
    names = sorted({row["detector"] for row in rows})
    families = sorted({row["family"] for row in rows})
    return {
        name: [
            float(
                np.mean(
                    [
                        values.get(name, min(values.values()))
                        for (family, *_), values in cases.items()
                        if family == wanted
                    ]
                )
            )
            for wanted in families
        ]
        for name in names
    }


COLUMNS = {
    "all": lambda _: True,
    "same data": lambda row: not is_other_data(row),
    "other data": is_other_data,
    "images": lambda row: domain_of(row["family"]) == "images",
    "text": lambda row: domain_of(row["family"]) == "text",
    "tables": lambda row: domain_of(row["family"]) == "tables",
    "linear": lambda row: row["network"].endswith("linear"),
    "MLP": lambda row: "_mlp" in row["network"],
    "CNN": lambda row: "_cnn" in row["network"],
}


def show(metric: str, *, write: bool) -> None:
    """Rank over families, for all rows and for parts of them."""
    rows = [row for row in stored() if row["accuracy"] >= LEAST_ACCURACY]
    found = {}
    for title, chosen in COLUMNS.items():
        part = [row for row in rows if chosen(row)]
        if len({row["family"] for row in part}) > 1:
            found[title] = stats.ranks(table_of(part, metric))
    whole = found["all"]
    means = {
        name: float(np.mean(values)) for name, values in table_of(rows, metric).items()
    }
    n = {title: ranks.n for title, ranks in found.items()}
    lines = [
        f"| | mean {metric} | " + " | ".join(f"{t} ({n[t]})" for t in found) + " |",
        "|---|---|" + "---|" * len(found),
    ]
    best = {title: min(ranks.mean.values()) for title, ranks in found.items()}
    for name in whole.mean:
        cells = []
        for title, ranks in found.items():
            if name not in ranks.mean:
                cells.append("–")
                continue
            value = ranks.mean[name]
            # Bold: not significantly behind the best of the column.
            is_alike = value - best[title] < ranks.critical_difference
            cells.append(f"**{value:.1f}**" if is_alike else f"{value:.1f}")
        lines.append(f"| {name} | {means[name]:.3f} | " + " | ".join(cells) + " |")
    networks = {row["network"] for row in rows}
    kinds = {(row["network"], row["unknown"]) for row in rows}
    cd = ", ".join(f"{t} {r.critical_difference:.1f}" for t, r in found.items())
    text = (
        f"Computed by `python benchmarks/detector_ranks.py` on {machine()}: "
        f"{len(networks)} networks of {whole.n} families of data, {len(kinds)} pairs "
        f"of a network and a kind of unknowns; ranked by {metric}. Mean ranks over "
        f"families (number in the header), 1 is best of {len(whole.mean)} rows. Bold: "
        f"not significantly behind the best of its column at 95 % (Nemenyi). Critical "
        f"differences: {cd}. Friedman's p over all: {whole.p_value:.1g}.\n\n"
        + "\n".join(lines)
    )
    print(text)
    if write:
        put_section("ranks", text, PAGE)
        single = {k: v for k, v in table_of(rows, metric).items() if "+" not in k}
        shown = {k: single[k] for k in list(stats.ranks(single).mean)}
        figure = report.critical_difference(stats.ranks(shown))
        figure.plot(FIGURE, width=9.0, height=7.0)


def main() -> None:
    """Make the results or show them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "show"])
    every = [name for named in _kinds.DOMAINS.values() for name in named]
    # Data that take long to decode come last.
    every.sort(key=lambda name: name in {"cifar10", "svhn", "mnist", "notmnist"})
    parser.add_argument("--families", nargs="+", choices=every, default=every)
    parser.add_argument("--draws", type=int, default=2, help="problems of a family")
    parser.add_argument("--metric", choices=["openauc", "auroc"], default="openauc")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "make":
        make(arguments.families, arguments.draws)
    else:
        show(arguments.metric, write=arguments.write)


if __name__ == "__main__":
    main()
