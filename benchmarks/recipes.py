"""Our recipe `openset` against CE+, and forms of OpenAUC on top of it.

    python benchmarks/recipes.py --data cifar10 --root data --variants openset \
        --budgets 100 600 200 --keep runs/keep --out benchmarks/results/recipes
    python benchmarks/recipes.py --data svhn --root data --variants openset \
        --budgets 60 --keep runs/keep --out benchmarks/results/recipes
    python benchmarks/recipes.py --inner --seeds 0 --data cifar10 --root data \
        --keep runs/keep --out benchmarks/results/recipes     # forms of OpenAUC
    python benchmarks/recipes.py --table                      # into README.md and docs

A budget counts image passes: epochs of CE+, and 1.5 for every epoch with a rotation
head. Published splits train on all known training images and are tested on the full
test part after the last epoch. CE+ at the same budgets comes from
``results/openauc_training``. `--inner` trains on problems made of the training part
alone, by which everything is chosen. What is in ``runs.jsonl`` is not trained again;
what `--seconds` stopped goes on from `--keep`. Needs a GPU; `--tiny` tries a command on
the CPU.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _training_runs import Variant, add_options, difference, mean, read, train_all

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs" / "results" / "training.md"
# Places of the mixtures of OpenAUC on top of the recipe, λ = 0.1.
FORMS: dict[str, dict[str, Any]] = {
    "paper-penultimate": {"place": "penultimate"},
    "paper-conv6": {},
    "paper-conv3": {"place": "conv3"},
    "paper-input": {"place": "input"},
}
VARIANTS = {
    "ceplus": Variant(),
    "openset": Variant(recipe="openset"),
    "openset-norot": Variant(recipe="openset", changes={"auxiliary": "none"}),
} | {
    f"openset+{name}": Variant(
        "openauc", recipe="openset", options={"place": "conv6"} | options
    )
    for name, options in FORMS.items()
}
_SCORES = {"openauc_maxlogit": "OpenAUC", "openauc_msp": "by max probability"}
_PARTIAL = "partial_openauc_maxlogit"


def table(runs: list[dict[str, Any]]) -> str:
    """Return all comparisons: each budget against CE+, the third, the inner ones."""
    parts = []
    inner = [r for r in runs if str(r["split"]).startswith("inner")]
    outer = [r for r in runs if r not in inner]
    for data, budget in sorted({(r["data"], _budget(r)) for r in outer}):
        mine = [r for r in outer if (r["data"], _budget(r)) == (data, budget)]
        base = [r for r in mine if r["variant"] == "ceplus"]
        own = _by_variant(mine)
        if len(own) > 1:
            parts += [_title(mine, f"{data}, a budget of {budget:g} epochs of CE+")]
            parts += [_rows(own, base, "ceplus")]
        third = _by_variant(
            [
                r
                for r in outer
                if (r["data"], 3 * _budget(r)) == (data, budget)
                and r["variant"] != "ceplus"
            ]
        )
        if third and base:
            text = f"{data}, a third of the budget of CE+ ({budget:g} epochs)"
            parts += [
                _title(mine, text),
                _rows({"ceplus": base} | third, base, "ceplus"),
            ]
    for data, budget in sorted({(r["data"], _budget(r)) for r in inner}):
        mine = [r for r in inner if (r["data"], _budget(r)) == (data, budget)]
        base = [r for r in mine if r["variant"] == "openset"]
        text = f"{data}, inner problems, a budget of {budget:g}"
        parts += [_title(mine, text), _rows(_by_variant(mine), base, "openset")]
    return "\n\n".join(parts)


def summary(runs: list[dict[str, Any]]) -> str:
    """Return the short table of docs/results/training.md: our recipe against CE+."""
    lines = [
        "| data, image passes | runs | CE+ | `openset` | difference | "
        "by max probability | CE+ with | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    outer = [r for r in runs if isinstance(r["split"], int)]
    ours = [r for r in outer if r["variant"] == "openset"]
    for data, budget in sorted({(r["data"], _budget(r)) for r in ours}):
        own = [r for r in ours if (r["data"], _budget(r)) == (data, budget)]
        for times in (1, 3):
            base = [
                r
                for r in outer
                if r["variant"] == "ceplus"
                and (r["data"], _budget(r)) == (data, times * budget)
                and any((r["split"], r["seed"]) == (o["split"], o["seed"]) for o in own)
            ]
            if not base:
                continue
            cells = [f"{data}, {budget:g}", str(len(base))]
            cells += [mean(r["openauc_maxlogit"] for r in some) for some in (base, own)]
            cells += [difference(own, base, metric) for metric in _SCORES]
            cells.append(f"{times * budget:g} passes")
            cells.append("the same cost" if times == 1 else "three times the cost")
            lines.append("| " + " | ".join(cells) + " |")
    if len(lines) == 2:
        return (
            "Not measured yet: `python benchmarks/recipes.py --table` writes it here."
        )
    splits = sorted({r["split"] for r in ours})
    seeds = sorted({r["seed"] for r in ours})
    lines += [
        "",
        f"OpenAUC by max logit in percent, mean ± standard deviation over runs; "
        f"splits {', '.join(map(str, splits))}, seeds {', '.join(map(str, seeds))}; "
        f"difference paired by split and seed, with a 95 % t interval. "
        f"{ours[0]['gpu']}, torch {ours[0]['torch']}. Accuracy, partial "
        f"OpenAUC and seconds: the [benchmarks](../../benchmarks/README.md). "
        f"Two seeds of one split are not independent: the intervals are somewhat "
        f"too narrow.",
    ]
    return "\n".join(lines)


def _budget(run: dict[str, Any]) -> float:
    return float(run.get("budget", run["epochs"]))


def _by_variant(runs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group runs, in the order of the variants."""
    found = {v: [r for r in runs if r["variant"] == v] for v in VARIANTS}
    return {variant: own for variant, own in found.items() if own}


def _title(runs: list[dict[str, Any]], text: str) -> str:
    splits = sorted({str(r["split"]) for r in runs})
    seeds = sorted({r["seed"] for r in runs})
    return (
        f"**{text}**: splits {', '.join(splits)}, seeds {seeds}, {runs[0]['gpu']}. "
        f"Pixels: {runs[0]['note'] or 'as published'}. In percent, mean ± standard "
        f"deviation over runs; differences paired by split and seed, with a 95 % t "
        f"interval."
    )


def _rows(
    by_variant: dict[str, list[dict[str, Any]]], base: list[dict[str, Any]], name: str
) -> str:
    lines = [
        "| variant | runs | epochs | accuracy | OpenAUC, max logit | difference | "
        "OpenAUC, max probability | difference | partial OpenAUC, max logit "
        "| difference | seconds, networks at once |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for variant, own in by_variant.items():
        cells = [variant, str(len(own)), f"{own[0]['epochs']:g}"]
        cells.append(mean(r["accuracy"] for r in own))
        for metric in (*_SCORES, _PARTIAL):
            known = [r[metric] for r in own if metric in r]
            cells.append(mean(known) if known else "")
            cells.append("" if variant == name else difference(own, base, metric))
        first = own[0]
        seconds = first.get("train_seconds", first["group_seconds"])
        alone = "beside" not in first  # no other program on the GPU
        text = f"{seconds:.0f}, {first['group_size']}"
        cells.append(text if alone else "shared GPU")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Train, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, [v for v in VARIANTS if v not in ("ceplus", "openset-norot")])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if not args.table:
        train_all(args, VARIANTS)
        return
    from _measure import put_section

    runs = read(RESULTS / "recipes", RESULTS / "openauc_training")
    text = table(runs)
    put_section("Does our recipe beat CE+? (GPU)", text)
    put_section("recipes", summary(runs), DOCS)
    print(text)


if __name__ == "__main__":
    main()
