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
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from pathlib import Path

import _kind_networks
import _kinds
import _stored
import numpy as np
import packaged_data
from _kind_networks import scored, trained
from _kinds import half_of
from _measure import put_section
from _missing_kinds_tables import (
    FAILURE,
    Row,
    aims,
    codes,
    compared,
    draw,
    expected,
)
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

OFFERS = {
    "auto": tuple(dict.fromkeys((*SIMPLE, *MEMBERS))),
    "all detectors": _kind_networks.DETECTORS,
    "without a feature bank": tuple(
        name for name in _kind_networks.DETECTORS if name not in _kind_networks.BANK
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
                    found = scored(problem, trained(problem, kind))
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


def other_rules(folder: Path, part: str) -> str:
    """Compare other rules with the one in use: nothing may be tuned on part E."""
    whole = load(folder, part, _kind_networks.DETECTORS)
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
    whole = load(args.scores, args.part, _kind_networks.DETECTORS)
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
