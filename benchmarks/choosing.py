"""What `choose` and `calibrate` pick, tried on a kind of unknowns left out.

    python benchmarks/choosing.py        # packaged tables, a few minutes

Per table and seed a small network is trained on half of the classes. Every other class
is a kind of unknowns. One kind at a time is left out: detector and threshold are chosen
with validation samples and the other kinds, then tried on test samples and that kind.
Compared with always taking MSP, or MaxLogit, and its OSA threshold (α = 0.5), and with
what many people do: accept where the largest softmax probability is at least 0.5, 0.9.
"""

import argparse
import warnings
from typing import Any

import numpy as np
from _measure import save_claim

import openset as ops
from openset import CalibrationWarning, Outputs, datasets, protocols, train

SOFTMAX = (0.5, 0.9)
TABLES = ("letter", "optdigits", "penbased", "satimage", "segment", "vowel", "digits")
KINDS = 5  # left out in turn, at most


def outputs(table: str, seed: int) -> dict[str, Outputs]:
    """Train a small network on half of the classes; return its outputs."""
    data = datasets.load(table)
    n_known = len(data.classes) // 2
    n_unknown = len(data.classes) - n_known
    trained = train.fit(
        method="softmax",
        data=data,
        protocol=protocols.holdout(data, n_known, n_unknown, rng=seed),
        recipe="arpl",
        epochs=30,
        lr=0.05,
        validation=0.2,
        seed=seed,
        progress=False,
    )
    return dict(trained.outputs)


def case(parts: dict[str, Outputs], kind: str) -> dict[str, Any]:
    """Choose and calibrate without a kind; try the result on it."""
    test = parts["test"]
    of_kind = np.asarray(test.groups) == kind
    known = np.asarray(test.labels) >= 0
    surrogate = test.take(np.flatnonzero(~known & ~of_kind))
    tried = test.take(np.flatnonzero(known | of_kind))
    fitted = {
        name: ops.detectors.make(name).fit(parts["train"])
        for name in ops.selection.suitable(parts["train"]).names
    }
    choice = ops.selection.choose(
        fitted, known=parts["validation"], surrogate=surrogate
    )
    found: dict[str, Any] = {"kind": kind, "chosen": choice.name}
    for name, one in (
        ("auto", choice),
        ("msp", fitted["msp"]),
        ("maxlogit", fitted["maxlogit"]),
    ):
        rejector = ops.Rejector.calibrate(
            one, known=parts["validation"], surrogate=surrogate, accept_risk=True
        )
        scores = rejector.fitted.score(tried)
        found["accuracy"] = ops.metrics.accuracy(scores)
        threshold = rejector.threshold.value
        found[name] = ops.metrics.osa(scores, threshold=threshold)
        best = ops.thresholds.osa(scores)
        found[f"{name}_oracle"] = ops.metrics.osa(scores, threshold=best.value)
        if name == "auto":
            found["auto_urr"] = ops.metrics.urr(scores, threshold=threshold)
            found["codes"] = sorted(c.code for c in rejector.report.cautions)
    softmax = fitted["msp"].score(tried)  # log-odds of the largest probability
    for limit in SOFTMAX:
        at = float(np.log(limit / (1 - limit)))
        found[f"softmax_{limit}"] = ops.metrics.osa(softmax, threshold=at)
        found[f"softmax_{limit}_urr"] = ops.metrics.urr(softmax, threshold=at)
    best = choice.ranking[0]
    found["covered"] = bool(best["low"] <= found["auto"] <= best["high"])
    return found


def main() -> None:
    """Train, choose, try; write the claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore", CalibrationWarning)
    cases = []
    for table in args.tables:
        for seed in range(args.seeds):
            parts = outputs(table, seed)
            unknown = np.asarray(parts["test"].labels) < 0
            kinds = np.unique(np.asarray(parts["test"].groups)[unknown])
            about = {"table": table, "seed": seed}
            cases += [about | case(parts, str(kind)) for kind in kinds[:KINDS]]
            print(cases[-1], flush=True)
    rows = []
    for table in args.tables:
        mine = [c for c in cases if c["table"] == table]
        row: dict[str, Any] = {"table": table, "cases": len(mine)}
        names = ("accuracy", "auto", "msp", "maxlogit", "auto_oracle", "covered")
        plain = (f"softmax_{limit}{end}" for limit in SOFTMAX for end in ("", "_urr"))
        for name in (*names, "auto_urr", *plain):
            row[name] = round(float(np.mean([c[name] for c in mine])), 4)
        for other in ("msp", "maxlogit"):
            by_seed = [
                np.mean([c["auto"] - c[other] for c in mine if c["seed"] == seed])
                for seed in range(args.seeds)
            ]
            row[f"gain_over_{other}"] = round(float(np.mean(by_seed)), 4)
            row[f"worst_network_over_{other}"] = round(float(min(by_seed)), 4)
        failed = [c["auto"] < c["auto_oracle"] - 0.05 for c in mine]
        silent = [f and not c["codes"] for f, c in zip(failed, mine, strict=True)]
        row["more_than_5_points_below_oracle"] = round(float(np.mean(failed)), 4)
        row["of_these_without_a_code"] = int(sum(silent))
        rows.append(row)
    save_claim(
        "choosing",
        "OSA (alpha = 0.5) on a kind of unknowns that was left out: what choose and "
        "calibrate pick, always MSP or MaxLogit, and fixed limits of the softmax.",
        rows,
        data="packaged tables, half of the classes known, one kind left out in turn",
        n=len(cases),
        seeds=list(range(args.seeds)),
    )


if __name__ == "__main__":
    main()
