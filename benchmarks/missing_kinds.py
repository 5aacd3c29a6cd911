"""Whether a threshold holds when a kind of unknowns is missing, or says it will not.

    OPENSET_DATA=... python benchmarks/missing_kinds.py --scores FOLDER --part F --write

The first call trains the networks of a part, some 70 small ones of up to sixteen
families (`_kinds.py`), on the data that OPENSET_DATA points to, and keeps the scores of
18 detectors in FOLDER (a quarter of an hour on one core; networks that are there are
not made again). Every case is a network, a non-empty set of kinds of unknowns to
calibrate with, and another kind to test on. The detector is chosen by the package
itself, and so are the threshold, the interval for a new kind and the codes
(`_stored.py`).

The networks are divided into parts. Rules were tuned on part A (every second family of
data) and tested on part B, the other families; changed because of the results on B, and
tested on part C, the same families with other known classes and networks; changed
because of the results on C, and tested on part D, again with others; changed because
of the results on D (tuned on A to C), and tested on part E, which has yet other classes
and networks and was run once. Part F, again other classes and networks, was run once
more with the same rule, which nothing had changed in between.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import _kinds
import _stored
import numpy as np
import packaged_data
from _kinds import half_of
from _measure import put_section
from _stored import chosen

from openset.selection._robust import MEMBERS, SIMPLE, kinds_by

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "results" / "operating.md"
FIGURE = ROOT / "docs" / "figures" / "missing-kinds.png"
MOST_CASES = 60  # of one network
LEAST_ACCURACY = 0.6  # of a network worth operating
# Of known classes, of each part; 300 on are those of detector_ranks.py.
FIRST_DRAW = {"A": 0, "B": 0, "C": 100, "D": 200, "E": 400, "F": 500}
# Slow to decode and train.
LEFT_OUT = {
    "C": ("cifar10",),
    "D": ("cifar10", "svhn"),
    "E": ("cifar10",),
    "F": ("cifar10",),
}
SHOWN = "F"  # the last part; no rule was tuned on it
TUNED = {
    "D": "The results on these networks led to a change of the rule, which was tuned "
    "on parts A to C.",
    **dict.fromkeys("EF", "No rule was tuned on these networks."),
}
SURE = 2.0  # standard errors
FAILURE = 0.05  # of open-set accuracy below the oracle of the chosen detector

OFFERS = {
    "auto": tuple(dict.fromkeys((*SIMPLE, *MEMBERS))),
    "all detectors": _kinds.DETECTORS,
    "without a feature bank": tuple(
        name for name in _kinds.DETECTORS if name not in _kinds.BANK
    ),
    "logits only": ("msp", "maxlogit", "energy", "gen", "postmax", "openmax"),
}
# Compared with the rule in use by --rules, with the detectors each needs on offer.
OTHER_RULES: dict[str, dict[str, tuple[str, ...]]] = {
    "choose": {},
    "MSP and MaxLogit must gain two points, too": {"simple": ()},
    **{
        f"consensus of {', '.join(members)}": {"members": members}
        for members in (
            ("msp", "maxlogit", "vim", "osnn"),
            ("msp", "maxlogit", "knn", "vim"),
            ("maxlogit", "knn", "vim", "osnn"),
            ("msp", "maxlogit", "rmds", "vim", "osnn"),
        )
    },
}
Row = dict[str, Any]
Networks = dict[str, _stored.Network]
Kinds = tuple[str, ...]
Rule = Callable[[_stored.Network, Kinds], _stored.Calibrated]


def make(folder: Path, part: str, families: Iterable[str]) -> None:
    """Train every network of a part that is not in the folder, and save its scores."""
    data = packaged_data.reader()
    folder.mkdir(parents=True, exist_ok=True)
    for family in families:
        if family in LEFT_OUT.get(part, ()) or part in {"A", "B"} - {half_of(family)}:
            continue
        for problem in _kinds.problems(data, family, FIRST_DRAW[part]):
            for kind in problem.networks:
                path = folder / f"{problem.name}_{kind}.npz"
                if not path.exists():
                    found = _kinds.scored(problem, _kinds.trained(problem, kind))
                    np.savez_compressed(path, **found)
                    accuracy = found["facts"][0]
                    print(
                        f"{path.stem}: closed-set accuracy {accuracy:.3f}", flush=True
                    )


def family_of(network: str) -> str:
    """Give the family a network's name begins with."""
    families = [f for named in _kinds.DOMAINS.values() for f in named]
    return next(
        f for f in sorted(families, key=len, reverse=True) if network.startswith(f)
    )


def part_of(network: str) -> str:
    """Say which part a network is for: half A or B, or the fresh draws."""
    draw = network.partition("_")[0].rpartition("-")[2]
    for part in ("F", "E", "D", "C"):
        if draw.isdigit() and int(draw) >= FIRST_DRAW[part]:
            return part
    return half_of(family_of(network))


def load(folder: Path, half: str, offer: tuple[str, ...]) -> Networks:
    """Read the networks of one half, for some detectors."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        if part_of(path.stem) == half:
            with np.load(path) as saved:
                arrays = dict(saved)
            if arrays["facts"][0] >= LEAST_ACCURACY:
                found[path.stem] = _stored.Network.of(arrays, offer)
    return found


def cases(kinds: Kinds) -> list[tuple[Kinds, str]]:
    """List sets of kinds to calibrate with, each with one to test on."""
    found = [
        (shown, left_out)
        for left_out in kinds
        for size in range(1, len(kinds))
        for shown in combinations([k for k in kinds if k != left_out], size)
    ]
    if len(found) > MOST_CASES:
        rng = np.random.default_rng(len(found))
        rows = np.sort(rng.permutation(len(found))[:MOST_CASES])
        found = [found[i] for i in rows]
    return found


def always(name: str) -> Rule:
    """Give the rule that takes one detector, and the threshold of `osa`."""

    def rule(network: _stored.Network, kinds: Kinds) -> _stored.Calibrated:
        members = (network.names.index(name),)
        return _stored.calibrated(network, kinds, members, "osa", name)

    return rule


USUAL = {"always MSP": "msp", "always MaxLogit": "maxlogit"}


def run(networks: Networks, rule: Rule, best: dict[str, dict[str, float]]) -> list[Row]:
    """Try a rule in every case of every network."""
    return [
        row
        for name, network in networks.items()
        for row in _run(network, name, rule, best[name])
    ]


def _run(
    network: _stored.Network, name: str, rule: Rule, best: dict[str, float]
) -> list[Row]:
    rows, done = [], {}
    for shown, left_out in cases(network.kinds):
        if shown not in done:
            done[shown] = rule(network, shown)
        found = done[shown]
        reached = found.operate(left_out)
        rows.append(
            {
                "network": name,
                "shown": shown,
                "left out": left_out,
                "given": len(shown),
                "detector": found.name,
                "oosa": reached.oosa,
                "gap": reached.gap,
                "to best": best[left_out] - reached.oosa,
                "report": found.report,
                "right": found.right(left_out),
            }
        )
    return rows


def compare(named: dict[str, list[Row]]) -> None:
    """Add to every row what the rule gains over the usual ones."""
    for rows in named.values():
        for label, detector in USUAL.items():
            for row, base in zip(rows, named[label], strict=True):
                row[f"over {detector}"] = row["oosa"] - base["oosa"]


def by_network(rows: list[Row], value: Callable[[Row], float]) -> dict[str, float]:
    """Average over the cases of each network."""
    found = defaultdict(list)
    for row in rows:
        found[row["network"]].append(value(row))
    return {name: float(np.mean(values)) for name, values in found.items()}


def gains(rows: list[Row], usual: list[Row]) -> dict[str, tuple[float, float]]:
    """Give the mean gain of each network over a usual rule, and its standard error.

    The error is that of the test samples: open-set accuracy is half the share of known
    samples that are right and half that of unknown ones, so a mean over cases is a sum
    of means over samples. Thresholds count as given.
    """
    found = {}
    for name in dict.fromkeys(row["network"] for row in rows):
        pairs = [
            (row, base)
            for row, base in zip(rows, usual, strict=True)
            if row["network"] == name
        ]
        sides: dict[str, Any] = defaultdict(float)
        for row, base in pairs:
            for side, part in enumerate(("known", row["left out"])):
                more = row["right"][side].astype(float) - base["right"][side]
                sides[part] = sides[part] + more / (2 * len(pairs))
        found[name] = (
            sum(float(x.mean()) for x in sides.values()),
            sum(float(x.var(ddof=1)) / x.size for x in sides.values()) ** 0.5,
        )
    return found


def mean(rows: list[Row], value: Callable[[Row], float]) -> float:
    """Average over networks, of their averages over cases."""
    return float(np.mean(list(by_network(rows, value).values()))) if rows else np.nan


def failed(row: Row) -> bool:
    """Say whether the threshold is far below the oracle of its detector."""
    return row["gap"] > FAILURE


def covered(row: Row) -> bool:
    """Say whether the accuracy lies in the interval of the report."""
    return span(row).low <= row["oosa"] <= span(row).high


def span(row: Row) -> Any:
    """Give the interval of the report for a new kind."""
    return row["report"].new_kind.interval


def is_warned(row: Row) -> bool:
    """Say whether calibration gave any code."""
    return bool(row["report"].cautions)


def compared(named: dict[str, list[Row]]) -> str:
    """Write a table of rules: a row each."""
    lines = [
        "| rule | OOSA | gap | below the oracle of the best detector | failures "
        "| failures with 1, 2, 3+ kinds | gain over MSP: mean, worst network "
        "| gain over MaxLogit: mean, worst network "
        "| one kind, gain over MSP: worst network, cases below -0.01 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in named.items():
        one = [row for row in rows if row["given"] == 1]
        sizes = [
            [row for row in rows if min(row["given"], 3) == size] for size in (1, 2, 3)
        ]
        over = {
            other: by_network(rows, lambda row, o=other: row[f"over {o}"])
            for other in ("msp", "maxlogit")
        }
        cells = [
            name,
            *(f"{mean(rows, lambda r, k=k: r[k]):.3f}" for k in ("oosa", "gap")),
            f"{mean(rows, lambda row: row['to best']):.3f}",
            f"{mean(rows, failed):.1%}",
            ", ".join(f"{mean(size, failed):.1%}" for size in sizes),
            *(
                f"{np.mean(list(values.values())):+.3f}, {min(values.values()):+.3f} "
                f"({min(values, key=values.__getitem__)})"
                for values in over.values()
            ),
            f"{min(by_network(one, lambda row: row['over msp']).values()):+.3f}, "
            f"{mean(one, lambda row: row['over msp'] < -0.01):.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def expected(rows: list[Row]) -> str:
    """Compare the reports with what was reached, by the number of distinct kinds."""
    lines = [
        "| distinct kinds | cases | interval covers | result below it | mean width "
        "| failures | cases without a code | failures among them | failures with a "
        "code |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    sizes = sorted({len(row["report"].kinds) for row in rows})
    for size in [*sizes, 0]:
        mine = [r for r in rows if size in {0, len(r["report"].kinds)}]
        silent = [row for row in mine if not is_warned(row)]
        warned = [row for row in mine if is_warned(row)]
        share = mean(mine, lambda row: not is_warned(row))
        cells = [
            str(size or "all"),
            str(len(mine)),
            f"{mean(mine, covered):.1%}",
            f"{mean(mine, lambda row: row['oosa'] < span(row).low):.1%}",
            f"{mean(mine, lambda row: span(row).high - span(row).low):.2f}",
            f"{mean(mine, failed):.1%}",
            f"{share:.0%} ({len(silent)})",
            _share(silent),
            _share(warned),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    unsaid = mean(rows, lambda row: failed(row) and not is_warned(row))
    lines += ["", f"Failures without a code: {unsaid:.1%} of all cases."]
    return "\n".join(lines)


def _share(rows: list[Row]) -> str:
    n = sum(map(failed, rows))
    return f"{n / len(rows):.1%} ({n})" if rows else "-"


def codes(rows: list[Row]) -> str:
    """Write how often thresholds fail with and without each code."""
    lines = [
        "| code | cases with it | failures with it | without |",
        "|---|---|---|---|",
    ]
    for code in sorted({code for row in rows for code in row["report"].codes}):
        with_it, without = (
            [row for row in rows if (code in row["report"].codes) == is_given]
            for is_given in (True, False)
        )
        share = mean(rows, lambda row, c=code: c in row["report"].codes)
        lines.append(
            f"| {code} | {share:.0%} | {_share(with_it)} | {_share(without)} |"
        )
    return "\n".join(lines)


def cut_at_random(networks: Networks) -> str:
    """Say how often one kind, divided at random, is taken for more than one."""
    rng, told = np.random.default_rng(0), []
    for parts in (3, 20):
        more = tried = 0
        for network in networks.values():
            members = [d for d, n in enumerate(network.names) if n in MEMBERS]
            for kind in network.shown.values():
                place = rng.permutation(np.arange(len(kind)) % parts)
                names = [f"{i:02}" for i in range(parts)]
                more += len(kinds_by(names, place, kind[:, members])) > 1
                tried += 1
        told.append(f"into {parts} groups: {more} of {tried}")
    return f"One kind divided at random and mistaken for several: {'; '.join(told)}."


def draw(rows: list[Row], path: Path) -> None:
    """Plot open-set accuracy reached against expected, one dot per case."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    for has_code, colour, label in (
        (True, "#d9a441", "with a code"),
        (False, "#2b6cb0", "without a code"),
    ):
        mine = [row for row in rows if is_warned(row) == has_code]
        x = [row["report"].new_kind.value for row in mine]
        y = [row["oosa"] for row in mine]
        axes.scatter(x, y, s=7, alpha=0.5, color=colour, label=label, linewidths=0)
    lost = [row for row in rows if failed(row)]
    axes.scatter(
        [row["report"].new_kind.value for row in lost],
        [row["oosa"] for row in lost],
        s=26,
        facecolors="none",
        edgecolors="#c53030",
        linewidths=0.7,
        label="more than 0.05 below its oracle",
    )
    axes.plot([0.3, 1], [0.3, 1], color="#718096", linewidth=0.8)
    axes.set(
        xlim=(0.3, 1),
        ylim=(0.3, 1),
        xlabel="expected by the report: OOSA on a new kind",
        ylabel="reached on the kind left out",
    )
    axes.legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
    plt.close(figure)


def aims(found: dict[str, list[Row]], usual: dict[str, list[Row]]) -> str:
    """Write what must be shown, and what is reached, a column per offer."""
    table: dict[str, list[str]] = defaultdict(list)
    for rows in found.values():
        for rule, base in usual.items():
            over = gains(rows, base)
            values = [value for value, _ in over.values()]
            below = sum(value < -SURE * error for value, error in over.values())
            label = rule.removeprefix("always ")
            gain = f"gain in OOSA over always {label}"
            table[f"{gain}, mean over networks (aim: above 0)"].append(
                f"{np.mean(values):+.3f}"
            )
            table[f"{gain}, worst network (aim: not below 0)"].append(
                f"{min(values):+.3f}"
            )
            table[
                f"networks below always {label} by more than the noise of the test "
                "samples (two standard errors)"
            ].append(f"{below} of {len(values)}")
            table[f"networks more than 0.005 below always {label}"].append(
                f"{sum(value < -0.005 for value in values)} of {len(values)}"
            )
        one = [row for row in rows if row["given"] == 1]
        over = by_network(one, lambda row: row["over msp"])
        table[
            "gain in OOSA over always MSP, calibrated with one kind, worst network "
            "(aim: −0.01)"
        ].append(f"{min(over.values()):+.3f}")
        silent = [row for row in rows if not is_warned(row)]
        table[
            "cases more than 0.05 below the oracle, without a code (aim: at most 5 %)"
        ].append(f"{mean(rows, lambda r: failed(r) and not is_warned(r)):.1%}")
        table["the same, as a share of the cases without a code"].append(
            f"{np.mean([failed(row) for row in silent]):.1%}"
        )
        table["coverage of the 90 % interval (aim: 85–95 %)"].append(
            f"{mean(rows, covered):.1%}"
        )
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in table.items()]
    return "\n".join(lines)


def other_rules(folder: Path, part: str) -> str:
    """Compare other rules with the one in use: nothing may be tuned on part E."""
    whole = load(folder, part, _kinds.DETECTORS)
    oracle = {name: one.oracle for name, one in whole.items()}
    found = {label: run(whole, always(d), oracle) for label, d in USUAL.items()}
    for label, rule in OTHER_RULES.items():
        offer = tuple(dict.fromkeys((*SIMPLE, *rule.get("members", MEMBERS))))
        networks = load(folder, part, offer)
        found[label] = run(networks, partial(chosen, **rule), oracle)
    compare(found)
    return (
        f"`python benchmarks/missing_kinds.py --part {part} --rules`: other rules, on "
        f"the same {len(whole)} networks.\n\n{compared(found)}"
    )


def main() -> None:
    """Make networks, run every case, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("--part", choices=[*FIRST_DRAW], default=SHOWN)
    parser.add_argument("--family", action="append", help="make these only, no tables")
    parser.add_argument("--rules", action="store_true", help="compare other rules")
    parser.add_argument("--write", action="store_true", help="to README and docs")
    args = parser.parse_args()
    every = [f for named in _kinds.DOMAINS.values() for f in named]
    make(args.scores, args.part, args.family or every)
    if args.family:
        return
    if args.rules:
        text = other_rules(args.scores, args.part)
        print(text)
        if args.write:
            put_section(f"missing kinds, other rules, part {args.part}", text)
        return
    sections = [
        f"`python benchmarks/missing_kinds.py --part {args.part}`, one seed, α = 0.5. "
        "Averages are over networks, of their averages over cases. A failure is more "
        f"than {FAILURE} below the oracle of the chosen detector. "
        + TUNED.get(args.part, "Rules were tuned on these networks.")
    ]
    best = {}
    whole = load(args.scores, args.part, _kinds.DETECTORS)
    oracle = {name: one.oracle for name, one in whole.items()}
    usual = {label: run(whole, always(d), oracle) for label, d in USUAL.items()}
    for title, offer in OFFERS.items():
        networks = load(args.scores, args.part, offer)
        found = {**usual, "choose": run(networks, chosen, oracle)}
        compare(found)
        best[title] = found["choose"]
        sections.append(
            f"**{title}**: {len(networks)} networks, {len(best[title])} cases.\n\n"
            f"{compared(found)}\n\n{expected(best[title])}\n\n{codes(best[title])}"
        )
    sections.append(cut_at_random(whole))
    text = "\n\n".join(sections)
    print(text, aims(best, usual), sep="\n\n")
    if args.write:
        put_section(f"missing kinds, part {args.part}", text)
    if args.write and args.part == SHOWN:
        put_section("missing kinds", aims(best, usual), path=GUIDE)
        draw(next(iter(best.values())), FIGURE)


if __name__ == "__main__":
    main()
