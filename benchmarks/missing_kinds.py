"""Whether a threshold holds when a kind of unknowns is missing, or says it will not.

    OPENSET_DATA=... python benchmarks/missing_kinds.py --scores FOLDER
    python benchmarks/missing_kinds.py --scores FOLDER --half C --write

The first call trains some 150 small networks of sixteen families (`_kinds.py`), keeps
the scores of 18 detectors in FOLDER (three quarters of an hour on two cores; networks
that are there are not made again) and shows half A. Every case is a network, a
non-empty set of kinds of unknowns to calibrate with, and another kind to test on.

Rules (`_missing_rules.py`) were settled on half A, where what is learnt from other
networks comes from other families than the network's own, and shown on the families of
half B. There it came out that a consensus must drop members that are upside down, and
that the anchor of the threshold weighed too much with one kind. Both were changed, so
half B is no longer unseen: part C, the same families with other known classes and
networks, shows what the rules reach now.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import _kinds
import _missing_rules as rules
import numpy as np
from _measure import put_section
from operating import data_module

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "docs" / "figures" / "missing-kinds.png"
MOST_CASES = 60  # of one network
LEAST_ACCURACY = 0.6  # of a network worth operating
FIRST_DRAW = {"A and B": 0, "C": 100, "D": 200}  # of known classes, of each part
FAILURE = 0.05  # of open-set accuracy below the oracle of the chosen detector

OFFERS = {
    "all detectors": _kinds.DETECTORS,
    "without a feature bank": tuple(
        name for name in _kinds.DETECTORS if name not in _kinds.BANK
    ),
    "logits only": ("msp", "maxlogit", "energy", "gen", "postmax", "openmax"),
}
Row = dict[str, Any]
Networks = dict[str, rules.Rates]
Rule = Callable[[rules.Calibration, str], tuple[int, int]]


def make(folder: Path, families: Iterable[str], parts: Iterable[str]) -> None:
    """Train every network that is not in the folder, and save its scores."""
    data = data_module()
    folder.mkdir(parents=True, exist_ok=True)
    for family, first in product(families, [FIRST_DRAW[part] for part in parts]):
        for problem in _kinds.problems(data, family, first):
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
    for part in ("D", "C"):
        if draw.isdigit() and int(draw) >= FIRST_DRAW[part]:
            return part
    return _kinds.half_of(family_of(network))


def load(folder: Path, half: str, offer: tuple[str, ...]) -> Networks:
    """Read the networks of one half, for some detectors."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        if part_of(path.stem) == half:
            with np.load(path) as saved:
                arrays = dict(saved)
            if arrays["facts"][0] >= LEAST_ACCURACY:
                found[path.stem] = rules.rates(arrays, offer)
    return found


def cases(n_kinds: int) -> list[tuple[tuple[int, ...], int]]:
    """List sets of kinds to calibrate with, each with one to test on."""
    found = [
        (shown, left_out)
        for left_out in range(n_kinds)
        for size in range(1, n_kinds)
        for shown in combinations([k for k in range(n_kinds) if k != left_out], size)
    ]
    if len(found) > MOST_CASES:
        rng = np.random.default_rng(len(found))
        rows = np.sort(rng.permutation(len(found))[:MOST_CASES])
        found = [found[i] for i in rows]
    return found


def priors(networks: Networks, skip: str | None = None) -> dict[str, rules.Prior]:
    """Learn what each detector gains over the consensus, every domain the same."""
    domain = {f: d for d, named in _kinds.DOMAINS.items() for f in named}
    found: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for name, one in networks.items():
        family = family_of(name)
        if family == skip:
            continue
        every = rules.Calibration.of(one, [[k] for k in range(len(one.kinds))])
        level, rows = rules.anchored_level(every), np.arange(len(one.names))
        osa = one.ccr[rows, level][:, None] + every.urr[rows, :, level]
        gain = (osa - osa[every.default]) / 2
        for d, detector in enumerate(one.names[: one.n_single]):
            moments = gain[d].mean(), gain[d].var(ddof=1), gain[d].mean() ** 2
            found[detector][domain[family]][family].append(moments)
    made = {}
    for detector, domains in found.items():
        mean, within, square = np.mean(
            [
                np.mean([np.mean(m, axis=0) for m in families.values()], axis=0)
                for families in domains.values()
            ],
            axis=0,
        )
        made[detector] = rules.Prior(mean, within, max(square - mean**2, 1e-4))
    return made


def run(networks: Networks, rule: Rule, *, merge: bool) -> list[Row]:
    """Try a rule in every case."""
    rows = []
    for name, one in networks.items():
        done: dict[tuple[int, ...], Any] = {}
        for shown, left_out in cases(len(one.kinds)):
            plain = rules.Calibration.of(one, [[k] for k in shown])
            if shown not in done:
                groups = rules.merged(one.differ, shown)
                joined = rules.Calibration.of(one, groups)
                d, level = rule(joined if merge else plain, name)
                told = rules.claim(joined, d, level)
                usual = [rules.fixed(plain, n) for n in ("msp", "maxlogit")]
                done[shown] = d, level, told, usual
            d, level, told, usual = done[shown]
            reached = _reached(one, d, level, left_out)
            msp, maxlogit = (_reached(one, *each, left_out) for each in usual)
            rows.append(
                {
                    "network": name,
                    "left out": one.kinds[left_out],
                    "given": len(shown),
                    "detector": one.names[d],
                    "oosa": reached,
                    "gap": one.oracle[d, left_out] - reached,
                    "to best": one.oracle[: one.n_single, left_out].max() - reached,
                    "over msp": reached - msp,
                    "over maxlogit": reached - maxlogit,
                    "claim": told,
                }
            )
    return rows


def _reached(one: rules.Rates, d: int, level: int, kind: int) -> float:
    return float((one.test_ccr[d, level] + one.test_urr[d, kind, level]) / 2)


def by_network(rows: list[Row], value: Callable[[Row], float]) -> dict[str, float]:
    """Average over the cases of each network."""
    found = defaultdict(list)
    for row in rows:
        found[row["network"]].append(value(row))
    return {name: float(np.mean(values)) for name, values in found.items()}


def mean(rows: list[Row], value: Callable[[Row], float]) -> float:
    """Average over networks, of their averages over cases."""
    return float(np.mean(list(by_network(rows, value).values()))) if rows else np.nan


def failed(row: Row) -> bool:
    """Say whether the threshold is far below the oracle of its detector."""
    return row["gap"] > FAILURE


def covered(row: Row) -> bool:
    """Say whether the accuracy lies in the interval that was announced."""
    return row["claim"].low <= row["oosa"] <= row["claim"].high


def compared(named: dict[str, list[Row]]) -> str:
    """Write a table of rules: a row each."""
    lines = [
        "| rule | OOSA | gap | to the best detector | failures | by kinds 1, 2, 3+ "
        "| over MSP: mean, least of a network | over MaxLogit | one kind, over MSP: "
        "least of a network, cases 0.01 below |",
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


def announced(rows: list[Row]) -> str:
    """Write what was announced, by the number of kinds that differ."""
    lines = [
        "| kinds that differ | cases | interval covers | below it | mean width "
        "| failures | cases without a code | failures among them | failures with a "
        "code |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    sizes = sorted({int(row["claim"].facts["kinds"]) for row in rows})
    for size in [*sizes, 0]:
        mine = [r for r in rows if size in {0, r["claim"].facts["kinds"]}]
        silent = [row for row in mine if not row["claim"].codes]
        warned = [row for row in mine if row["claim"].codes]
        share = mean(mine, lambda row: not row["claim"].codes)
        cells = [
            str(size or "all"),
            str(len(mine)),
            f"{mean(mine, covered):.1%}",
            f"{mean(mine, lambda row: row['oosa'] < row['claim'].low):.1%}",
            f"{mean(mine, lambda row: row['claim'].facts['width']):.2f}",
            f"{mean(mine, failed):.1%}",
            f"{share:.0%} ({len(silent)})",
            _share(silent),
            _share(warned),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    unsaid = mean(rows, lambda row: failed(row) and not row["claim"].codes)
    lines += ["", f"Failures without a code: {unsaid:.1%} of all cases."]
    return "\n".join(lines)


def _share(rows: list[Row]) -> str:
    n = sum(map(failed, rows))
    return f"{n / len(rows):.1%} ({n})" if rows else "-"


def codes(rows: list[Row]) -> str:
    """Write how often thresholds fail with and without each sign."""
    signs: dict[str, Callable[[Row], bool]] = {
        "one kind": lambda row: row["claim"].facts["kinds"] < 2,
        f"regret on left-out classes > {rules.NEAR}": lambda row: (
            not row["claim"].facts["near"] <= rules.NEAR
        ),
        f"fewer than {rules.FEW} samples": lambda row: (
            row["claim"].facts["few"] < rules.FEW
        ),
        f"kinds disagree (regret > {rules.DISAGREE})": lambda row: (
            row["claim"].facts["regret"] > rules.DISAGREE
        ),
        "every kind easy (AUROC > 0.98)": lambda row: (
            row["claim"].facts["least auroc"] > 0.98
        ),
        "interval wider than 0.25": lambda row: row["claim"].facts["width"] > 0.25,
    }
    lines = [
        "| sign | cases with it | failures with it | without |",
        "|---|---|---|---|",
    ]
    for name, is_given in signs.items():
        shown = [row for row in rows if is_given(row)]
        rest = [row for row in rows if not is_given(row)]
        lines.append(
            f"| {name} | {mean(rows, is_given):.0%} | {_share(shown)} "
            f"| {_share(rest)} |"
        )
    return "\n".join(lines)


def cut_at_random(folder: Path, half: str) -> str:
    """Say how often one kind, cut at random, is taken for more than one."""
    rng, told = np.random.default_rng(0), []
    for parts in (3, 20):
        more = tried = 0
        for path in sorted(folder.glob("*.npz")):
            if part_of(path.stem) != half:
                continue
            with np.load(path) as saved:
                names = [str(name) for name in saved["names"]]
                members = [names.index(n) for n in rules.MEMBERS if n in names]
                kinds = [saved[p][:, members] for p in saved if p.startswith("cal:")]
            for kind in kinds:
                groups = np.array_split(rng.permutation(kind), parts)
                differ = rules.p_values(groups)
                more += len(rules.merged(differ, range(parts))) > 1
                tried += 1
        told.append(f"into {parts} groups: {more} of {tried}")
    return f"One kind cut at random and taken for several: {'; '.join(told)}."


def draw(rows: list[Row], path: Path) -> None:
    """Plot open-set accuracy reached against announced, one dot per case."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    for is_warned, colour, label in (
        (True, "#d9a441", "with a code"),
        (False, "#2b6cb0", "without a code"),
    ):
        mine = [row for row in rows if bool(row["claim"].codes) == is_warned]
        x = [row["claim"].middle for row in mine]
        y = [row["oosa"] for row in mine]
        axes.scatter(x, y, s=7, alpha=0.5, color=colour, label=label, linewidths=0)
    lost = [row for row in rows if failed(row)]
    axes.scatter(
        [row["claim"].middle for row in lost],
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
        xlabel="announced: expected OOSA on a new kind",
        ylabel="reached on the kind left out",
    )
    axes.legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
    plt.close(figure)


def shown(folder: Path, half: str, *, figure: Path | None) -> str:
    """Compare all rules on one half and write everything down."""
    sections = []
    for title, offer in OFFERS.items():
        networks = load(folder, half, offer)
        others = networks if half == "A" else load(folder, "A", offer)
        learnt = {
            family: priors(others, skip=family)
            for family in {family_of(name) for name in networks}
        }
        candidates: dict[str, tuple[Rule, bool]] = {
            "always MSP": (lambda one, _: rules.fixed(one, "msp"), False),
            "always MaxLogit": (lambda one, _: rules.fixed(one, "maxlogit"), False),
            "best on kinds left out": (
                lambda one, _: rules.left_out_kinds(one),
                False,
            ),
            "consensus, best OSA": (
                lambda one, _: rules.fixed(one, rules.DEFAULT),
                False,
            ),
            "consensus, anchored": (_anchored_consensus, True),
            "robust": (
                lambda one, name, learnt=learnt: rules.robust(
                    one, learnt[family_of(name)]
                ),
                True,
            ),
        }
        found = {
            name: run(networks, rule, merge=merge)
            for name, (rule, merge) in candidates.items()
        }
        best = found["robust"]
        n_cases = len(best)
        sections.append(
            f"**{title}**: {len(networks)} networks, {n_cases} cases.\n\n"
            f"{compared(found)}\n\n{announced(best)}\n\n{codes(best)}"
        )
        if figure is not None and title == next(iter(OFFERS)):
            draw(best, figure)
    return "\n\n".join([f"Part {half}.", *sections, cut_at_random(folder, half)])


def _anchored_consensus(one: rules.Calibration, _: str) -> tuple[int, int]:
    return one.default, int(rules.anchored_level(one)[one.default])


def table_of_priors(folder: Path) -> str:
    """Write the priors learnt on all of half A, as constants to ship."""
    lines = []
    for title, offer in OFFERS.items():
        found = priors(load(folder, "A", offer))
        lines.append(f"{title}: detector, mean, variance between kinds and networks")
        lines += [
            f"    {name}: {one.mean:+.4f} {one.between_kinds:.5f} "
            f"{one.between_networks:.5f}"
            for name, one in found.items()
        ]
    return "\n".join(lines)


def main() -> None:
    """Make networks, run every case, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("--family", action="append", help="make these only, no tables")
    parser.add_argument(
        "--make", action="append", choices=FIRST_DRAW, help="these parts, no tables"
    )
    parser.add_argument("--half", choices=["A", "B", "C", "D"], default="A")
    parser.add_argument("--priors", action="store_true", help="print the learnt table")
    parser.add_argument("--write", action="store_true", help="to README and figures")
    args = parser.parse_args()
    every = [f for named in _kinds.DOMAINS.values() for f in named]
    make(args.scores, args.family or every, args.make or FIRST_DRAW)
    if args.family or args.make:
        return
    if args.priors:
        print(table_of_priors(args.scores))
        return
    text = shown(args.scores, args.half, figure=FIGURE if args.write else None)
    print(text)
    if args.write:
        put_section(f"missing kinds, part {args.half}", text)


if __name__ == "__main__":
    main()
