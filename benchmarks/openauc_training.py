"""Does the OpenAUC loss help? CE+, Acc+AUC and OpenAUC under one recipe.

    python benchmarks/openauc_training.py --data cifar10 --root data --budgets 100 \
        --splits 0 2 3 4 --seeds 0 1 --out benchmarks/results/openauc_training
    python benchmarks/openauc_training.py --data cifar10 --root data --budgets 100 \
        --variants rpl arpl arpl_cs --seconds 540 --keep runs/keep \
        --out benchmarks/results/openauc_training   # nine minutes; again to go on
    python benchmarks/openauc_training.py --table benchmarks/results/openauc_training
    python benchmarks/openauc_training.py \
        --reproduction benchmarks/results/openauc_training      # into docs/papers/

Recipe `ceplus`, shortened as the table says (one cosine cycle of the budget), or `arpl`
for the methods of the ARPL release (softmax, gcpl, rpl, arpl, arpl_cs); training on
all known training images, last epoch, full test sets, no tuning: λ = 0.1 throughout.
Several runs share the GPU. Each finished run is one line of ``runs.jsonl``; those that
are there already are not trained again. With `--keep` every run has a folder with its
checkpoint there: what was stopped goes on. Test logits go to ``logits-*.npz``.
Needs a GPU; `--tiny` tries a command on the CPU.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _training_runs import (
    SCORES,
    Variant,
    add_options,
    difference,
    mean,
    read,
    train_all,
)

ARPL = ("softmax", "gcpl", "rpl", "arpl", "arpl_cs")  # recipe of the ARPL release
VARIANTS = {
    "ceplus": Variant(),
    "acc_auc": Variant("acc_auc", options={"preset": "released"}),
    "openauc-released": Variant("openauc", options={"preset": "released"}),
} | {
    f"openauc-paper-{place}": Variant(
        "openauc", options={"preset": "paper", "place": place}
    )
    for place in ("input", "conv3", "conv6", "penultimate")
}
VARIANTS |= {name: Variant(name, recipe="arpl") for name in ARPL}


def table(folder: Path) -> str:
    """Return the section of the README: means, and differences to CE+ run by run."""
    runs = [r for r in read(folder) if r["variant"] not in ARPL]
    parts = []
    for data, epochs in sorted({(r["data"], r["epochs"]) for r in runs}):
        mine = [r for r in runs if (r["data"], r["epochs"]) == (data, epochs)]
        splits = sorted({r["split"] for r in mine})
        seeds = sorted({r["seed"] for r in mine})
        base = [r for r in mine if r["variant"] == "ceplus"]
        parts += [
            f"**{data}**, {epochs} epochs, splits {splits}, seeds {seeds}, "
            f"{mine[0]['gpu']}. Pixels: {mine[0]['note'] or 'as published'}. "
            f"OpenAUC and accuracy in percent, mean ± standard deviation over runs; "
            f"difference to CE+ paired by split and seed, 95 % t interval.",
            "",
            "| method | runs | accuracy | OpenAUC, max logit | difference | OpenAUC, "
            "max probability | difference |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for variant in VARIANTS:
            own = [r for r in mine if r["variant"] == variant]
            if not own:
                continue
            cells = [variant, str(len(own)), mean(r["accuracy"] for r in own)]
            for rule in SCORES:
                name = f"openauc_{rule}"
                cells.append(mean(r[name] for r in own))
                is_base = variant == "ceplus"
                cells.append("" if is_base else difference(own, base, name))
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


ROWS = {  # rows of Table 2 of the paper
    "softmax": "Softmax",
    "gcpl": "GCPL",
    "rpl": "RPL",
    "arpl": "ARPL",
    "arpl_cs": "ARPL+CS",
    "ceplus": "CE+",
    "acc_auc": "Acc+AUC",
    "openauc-released": "Ours",
    "openauc-paper-conv3": "Ours",
}
COLUMNS = {"cifar10": "CIFAR10", "svhn": "SVHN", "mnist": "MNIST"}
_REPORTED = {
    "openauc_maxlogit": "max logit",
    "openauc_msp": "max probability",
    "accuracy": "accuracy",
}


def reproduction(folder: Path) -> Any:
    """Return the rows of Table 2 that these runs are, beside the published ones."""
    import openset
    from openset.reproduce import Measured, Reproduction, Table, published

    runs = read(folder)
    paper = published("openauc-table2").values
    tables = []
    order = list(COLUMNS)
    lengths = {(r["data"], r["epochs"]) for r in runs if r["variant"] in ROWS}
    for data, epochs in sorted(lengths, key=lambda one: (order.index(one[0]), -one[1])):
        mine = [r for r in runs if (r["data"], r["epochs"]) == (data, epochs)]
        rows = []
        for variant, name in ROWS.items():
            own = [r for r in mine if r["variant"] == variant]
            if own:
                values = [Measured.of([100 * r[key] for r in own]) for key in _REPORTED]
                rows.append((variant, paper[name][COLUMNS[data]], *values, len(own)))
        pixels = mine[0]["note"].partition(":")[0] or "as published"
        tables.append(
            Table(
                title=f"OpenAUC on {COLUMNS[data]}, percent, {epochs} epochs",
                columns=("method", "paper", *_REPORTED.values(), "runs"),
                rows=tuple(rows),
                digits=1,
                note=f"Splits {sorted({r['split'] for r in mine})}, seeds "
                f"{sorted({r['seed'] for r in mine})}; pixels: {pixels}.",
            )
        )
    return Reproduction(
        name="openauc-table2-trained",
        paper="OpenAUC",
        number="Table 2, rows that were trained",
        what="Methods of Table 2 that were trained, each by the recipe of its rows",
        command="python benchmarks/openauc_training.py --reproduction "
        "benchmarks/results/openauc_training",
        tables=tuple(tables),
        provenance={"version": openset.__version__, "machine": runs[0]["gpu"]},
    )


def main() -> None:
    """Train, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, VARIANTS)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--reproduction", type=Path)
    args = parser.parse_args()
    if args.reproduction:
        made = reproduction(args.reproduction)
        papers = Path(__file__).parents[1] / "docs" / "papers" / "results"
        print(made.save(papers / f"{made.name}.json"))
        return
    if args.table:
        from _measure import put_section

        text = table(args.table)
        put_section("Does the OpenAUC loss help? (GPU)", text)
        print(text)
        return
    train_all(args, VARIANTS)


if __name__ == "__main__":
    main()
