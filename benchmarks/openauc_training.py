"""Does the OpenAUC loss help? CE+, Acc+AUC and OpenAUC under one recipe.

    python benchmarks/openauc_training.py --data cifar10 --root data --epochs 100 \
        --methods ceplus acc_auc openauc --splits 0 2 3 4 --seeds 0 1 --out results/
    python benchmarks/openauc_training.py --table results/            # into README.md

Recipe `ceplus`, shortened as the table says (one cosine cycle of `--epochs`), training
on all known training images, last epoch, full test sets, no tuning: λ = 0.1 throughout.
Several runs share the GPU. Each finished run is one line of ``runs.jsonl``; those that
are there already are not trained again. With `--keep` every run has a folder with its
checkpoint there: what was stopped goes on. Test logits go to ``logits-*.npz``.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ceplus": ("ceplus", {}),
    "acc_auc": ("acc_auc", {"preset": "released"}),
    "openauc-released": ("openauc", {"preset": "released"}),
    "openauc-paper-input": ("openauc", {"preset": "paper", "place": "input"}),
    "openauc-paper-conv3": ("openauc", {"preset": "paper", "place": "conv3"}),
    "openauc-paper-conv6": ("openauc", {"preset": "paper", "place": "conv6"}),
    "openauc-paper-penultimate": (
        "openauc",
        {"preset": "paper", "place": "penultimate"},
    ),
}


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """Name a run."""
    return tuple(line[k] for k in ("data", "variant", "split", "seed", "epochs"))


def train_all(args: argparse.Namespace) -> None:
    """Train what is not there yet, several runs at a time."""
    import torch

    from openset import datasets, metrics, train

    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "runs.jsonl"
    lines = (
        [json.loads(x) for x in log.read_text().splitlines()] if log.exists() else []
    )
    done = {key_of(line) for line in lines}
    data = datasets.load(args.data, args.root)
    execution = train.Execution(compiled=args.compiled, progress=False)
    wanted = [
        {
            "data": args.data,
            "variant": v,
            "split": s,
            "seed": i,
            "epochs": args.epochs,
        }
        for i in args.seeds
        for v in args.methods
        for s in args.splits
    ]
    waiting = [w for w in wanted if key_of(w) not in done]
    begun = time.time()
    for start in range(0, len(waiting), args.at_once):
        if time.time() - begun > args.seconds:
            print("time is up: run again to go on")
            return
        group = waiting[start : start + args.at_once]
        started = time.time()
        jobs = []
        for w in group:
            method, options = VARIANTS[w["variant"]]
            jobs.append(
                train.Job.of(
                    method=method,
                    options=options,
                    data=data,
                    split=w["split"],
                    seed=w["seed"],
                    epochs=args.epochs,
                    validation=0,
                    out=args.keep and args.keep / "-".join(map(str, key_of(w))),
                )
            )
        found = train.fit_jobs(jobs, execution)
        seconds = time.time() - started
        for w, one in zip(group, found, strict=True):
            line = dict(w)
            for rule in ("maxlogit", "msp"):
                scores = one.scores[rule]
                line[f"openauc_{rule}"] = metrics.openauc(scores)
                line[f"auroc_{rule}"] = metrics.auroc(scores)
            line["accuracy"] = metrics.accuracy(one.scores["published"])
            line["train_loss"] = one.log[-1]["loss"]
            line["group_seconds"], line["group_size"] = seconds, len(group)
            line["gpu"] = (
                torch.cuda.get_device_name() if torch.cuda.is_available() else ""
            )
            line["note"] = data.note
            with log.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
        images = sum(len(one.outputs["train"]) for one in found) * args.epochs
        print(f"group: {seconds:.0f} s, {images / seconds:,.0f} images/s", flush=True)
        name = f"logits-{args.data}-{group[0]['variant']}-{group[0]['seed']}.npz"
        np.savez_compressed(
            args.out / name,
            **{
                "_".join(map(str, key_of(w))): one.outputs["test"].logits.astype("f2")
                for w, one in zip(group, found, strict=True)
            },
        )


def table(folder: Path) -> str:
    """Return the section of the README: means, and differences to CE+ run by run."""
    from scipy import stats

    runs = [json.loads(x) for x in (folder / "runs.jsonl").read_text().splitlines()]
    parts = []
    for data, epochs in sorted({(r["data"], r["epochs"]) for r in runs}):
        mine = [r for r in runs if (r["data"], r["epochs"]) == (data, epochs)]
        splits = sorted({r["split"] for r in mine})
        seeds = sorted({r["seed"] for r in mine})
        base = {(r["split"], r["seed"]): r for r in mine if r["variant"] == "ceplus"}
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
            cells = [variant, str(len(own)), _mean([100 * r["accuracy"] for r in own])]
            for rule in ("maxlogit", "msp"):
                name = f"openauc_{rule}"
                cells.append(_mean([100 * r[name] for r in own]))
                pairs = [(r, base.get((r["split"], r["seed"]))) for r in own]
                diff = np.array([100 * (r[name] - b[name]) for r, b in pairs if b])
                if variant == "ceplus" or len(diff) < 2:
                    cells.append("")
                    continue
                half = stats.t.ppf(0.975, len(diff) - 1) * stats.sem(diff)
                cells.append(f"{diff.mean():+.2f} ± {half:.2f}")
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _mean(values: list[float]) -> str:
    spread = np.std(values, ddof=1) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {spread:.2f}"


def main() -> None:
    """Train, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--root", default=None)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=list(VARIANTS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    if args.table:
        from _measure import put_section

        text = table(args.table)
        put_section("Does the OpenAUC loss help? (GPU)", text)
        print(text)
        return
    train_all(args)


if __name__ == "__main__":
    main()
