"""By which rule should a detector and an objective be chosen? Fresh problems to decide.

    python benchmarks/choosing.py --out choosing.jsonl     # problems, one line per case
    python benchmarks/choosing.py --rules choosing.jsonl   # rules compared on them

None of these problems is one of `operating.py`: rules are compared here, and only what
was decided is tried there. Tables (letter, penbased, optdigits, satimage, texture,
segment; three draws of known classes each, scikit-learn's MLP with one hidden layer of
64), CLINC150 with other domains left untaught, and MNIST, CIFAR-10 and SVHN with other
known classes (the small networks of `_networks.py`). Every kind of unknowns is left out
in turn, as in `operating.py`.
"""

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _networks
import numpy as np
import packaged_data
from _measure import put_section
from operating import ALPHA, CANDIDATES, WITHIN
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from openset import Outputs, Scores, detectors, metrics, selection, thresholds
from openset.detectors import Fitted, combine, score_all
from openset.selection._candidates import ONE, RANK, STACKING, Data

OBJECTIVES = ("osa", "worst_group")
TABLES = ("letter", "penbased", "optdigits", "satimage", "texture", "segment")
DRAWS = 3
MIN_GAIN = 0.005
COMBINED = {RANK, STACKING, ONE}
Parts = dict[str, Outputs]
INTRODUCTION = (
    "`python benchmarks/choosing.py`: other problems than those of `operating.py` "
    "(tables, CLINC150, MNIST, CIFAR-10 and SVHN with other known classes). Each kind "
    "of unknowns is left out in turn. 18 detectors, two objectives, "
    f"α = {ALPHA}, one seed. The last rows are those of the first rule by the number "
    "of kinds. *OOSA gain*: over the best single detector (second rule), case by "
    "case. Mean ± standard error over cases (those of one problem are not "
    "independent)."
)


def tables(data: Any) -> Iterator[tuple[str, Parts]]:
    """Half of the classes are known; the others make up four kinds at most."""
    for name in TABLES:
        own = data.load(name)
        for draw in range(DRAWS):
            rng = np.random.default_rng([draw, len(name)])
            classes = rng.permutation(np.unique(own["train_y"]))
            known, unknown = np.split(classes, [-(-classes.size // 2)])
            kinds = np.array_split(unknown, min(4, unknown.size))
            yield f"{name} {draw}", _of_table(own, known, kinds, rng)


def _of_table(own: dict[str, Any], known: Any, kinds: Any, rng: Any) -> Parts:
    place = {c: i for i, c in enumerate(known.tolist())}
    x, y = own["train_x"], own["train_y"]
    mine = rng.permutation(np.flatnonzero(np.isin(y, known)))
    held, taught = np.split(mine, [mine.size // 5])
    scale = StandardScaler().fit(x[taught])
    model = MLPClassifier((64,), max_iter=60, random_state=0)
    model.fit(scale.transform(x[taught]), [place[c] for c in y[taught].tolist()])
    weight, bias = model.coefs_[1].T, model.intercepts_[1]

    def of(x: Any, labels: Any, groups: Any) -> Outputs:
        hidden = scale.transform(x) @ model.coefs_[0] + model.intercepts_[0]
        return _linear(np.maximum(hidden, 0), weight, bias, labels, groups)

    def knowns(x: Any, y: Any) -> Outputs:
        return of(x, [place[c] for c in y.tolist()], np.full(len(y), ""))

    def unknowns(x: Any, y: Any) -> Outputs:
        number = np.full(int(own["train_y"].max()) + 1, -1)
        for i, kind in enumerate(kinds):
            number[kind] = i
        rows = number[y] >= 0
        groups = np.char.add("kind ", number[y][rows].astype(str))
        return of(x[rows], np.full(rows.sum(), -1), groups)

    tx, ty = own["test_x"], own["test_y"]
    own_test = np.isin(ty, known)
    return {
        "train": knowns(x[taught], y[taught]),
        "known": knowns(x[held], y[held]),
        "surrogate": unknowns(x, y),
        "test_known": knowns(tx[own_test], ty[own_test]),
        "test_unknown": unknowns(tx, ty),
    }


def _linear(features: Any, weight: Any, bias: Any, labels: Any, groups: Any) -> Outputs:
    return Outputs(
        features=features,
        logits=features @ weight.T + bias,
        labels=labels,
        groups=groups,
        weight=weight,
        bias=bias,
    )


def sentences(data: Any) -> Iterator[tuple[str, Parts]]:
    """CLINC150; other domains are untaught than in `operating.py`."""
    parts, names = data.outputs("clinc150_minilm"), data.load("clinc150")
    place = {intent: i for i, intent in enumerate(names["class_names"])}
    domains = sorted(names["domains"])
    for draw, untaught in enumerate((domains[4:8], domains[6:10])):
        kind = np.full(len(place) + 1, "", dtype="U32")
        kind[-1] = "out of scope"
        for domain in untaught:
            kind[[place[intent] for intent in names["domains"][domain]]] = domain
        label = np.full(kind.size, -1)
        label[kind == ""] = np.arange((kind == "").sum())
        taught = label[parts["train"]["labels"]]
        model = LogisticRegression(C=10.0, max_iter=2000)
        keep = taught >= 0
        model.fit(parts["train"]["features"][keep], taught[keep])

        made = {
            (name, known): _linear(
                part["features"][rows],
                model.coef_,
                model.intercept_,
                label[part["labels"]][rows],
                kind[part["labels"]][rows],
            )
            for name, part in parts.items()
            for known in (True, False)
            if (rows := (label[part["labels"]] >= 0) == known).any()
        }
        strange = [made["val", False], made["oos_train", False]]
        yield (
            f"clinc150 {draw}",
            {
                "train": made["train", True],
                "known": made["val", True],
                "surrogate": Outputs.concat(strange),
                "test_known": made["test", True],
                "test_unknown": made["test", False],
            },
        )


def images(data: Any) -> Iterator[tuple[str, Parts]]:
    """Image sets with their classes renumbered: others are the first six."""
    makers = {
        "mnist": (_networks.mnist, 2),
        "cifar10": (_networks.cifar, 6),
        "svhn": (_networks.svhn, 4),
    }
    for name, (make, epochs) in makers.items():
        for draw in (1, 2):
            order = np.random.default_rng([draw, len(name)]).permutation(10)
            number = np.argsort(order)
            shown = _Renumbered(data, name, number)
            problem = make(shown)
            yield f"{name} {draw}", _networks.of_small(problem, epochs=epochs)


SOURCES = {"tables": tables, "sentences": sentences, "images": images}


class _Renumbered:
    """The data, with the classes of one set in another order."""

    def __init__(self, data: Any, name: str, number: Any) -> None:
        self.data, self.name, self.number = data, name, number

    def load(self, name: str) -> dict[str, Any]:
        found = dict(self.data.load(name))
        if name == self.name:
            for part in ("train_y", "test_y"):
                found[part] = self.number[found[part]]
        return found


def cases(name: str, parts: Parts) -> Iterator[dict[str, Any]]:
    """Leave out every kind in turn; tell of every detector and objective."""
    fitted = {}
    for one in CANDIDATES:
        try:
            fitted[one] = detectors.make(one).fit(parts["train"])
        except ValueError as error:
            print(f"{name}: without {one} ({str(error)[:80]})", flush=True)
    for left_out in np.unique(parts["test_unknown"].groups):
        others, strange = parts["surrogate"], parts["test_unknown"]
        others = others.take(others.groups != left_out)
        strange = strange.take(strange.groups == left_out)
        test = Outputs.concat([parts["test_known"], strange])
        kinds = np.unique(others.groups)
        for few in (kinds, kinds[:1]):
            surrogate = others.take(np.isin(others.groups, few))
            yield {
                "problem": name,
                "left_out": str(left_out),
                "kinds": "all others" if len(few) > 1 else "one",
                "n_kinds": len(few),
                "candidates": _all(fitted, parts["known"], surrogate, test),
            }


def _all(
    fitted: dict[str, Fitted],
    known: Outputs,
    surrogate: Outputs,
    test: Outputs,
) -> list[dict[str, Any]]:
    choice = selection.choose(
        fitted,
        known=known,
        surrogate=surrogate,
        objectives=OBJECTIVES,
        alpha=ALPHA,
    )
    fitted = fitted | _combined(fitted, known, surrogate)
    scored = [score_all(fitted, one) for one in (known, surrogate)]
    calibration = {n: Scores.concat([one[n] for one in scored]) for n in fitted}
    tested = score_all(fitted, test)
    first = calibration[next(iter(fitted))]
    kinds = np.unique(first.groups[first.labels < 0])
    rows = []
    for name in fitted:
        own = calibration[name]
        of_group = {
            str(g): own.take((own.labels >= 0) | (own.groups == g)) for g in kinds
        }
        best = {
            g: metrics.osa_optimum(one, alpha=ALPHA).value
            for g, one in of_group.items()
        }
        for objective in OBJECTIVES:
            cells = [
                c
                for c in choice.cells
                if (c["detector"], c["objective"]) == (name, objective)
            ]
            done = thresholds.operate(
                own, tested[name], objective=objective, alpha=ALPHA
            )
            rows.append(
                {
                    "detector": name,
                    "objective": objective,
                    "groups": [c["oosa"] for c in cells],
                    "half": [(c["high"] - c["low"]) / 2 for c in cells],
                    "oracles": [best.get(c["group"], c["oosa"]) for c in cells],
                    "oosa": done.oosa,
                    "oracle": done.oracle,
                }
            )
    return rows


def _combined(
    fitted: dict[str, Fitted], known: Outputs, unknown: Outputs
) -> dict[str, Fitted]:
    """Make what `choose` would, had it chosen a combination, or one by all samples."""
    data = Data.of("choosing", fitted, known, unknown, None, alpha=ALPHA, by="both")
    rows = np.arange(len(known)), np.arange(len(unknown))
    found = {ONE: fitted[data.names[data.best(1, *rows)[0]]]}
    for kind in (RANK, STACKING):
        made = data.combination(kind, *rows)
        parts = [fitted[data.names[d]] for d in made.used]
        found[kind] = combine(parts, knots=made.knots, weights=made.weights)
    return found


def main() -> None:
    """Make the problems, or compare rules."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rules", type=Path)
    parser.add_argument("--only", nargs="+", default=list(SOURCES))
    args = parser.parse_args()
    if args.rules:
        lines = [json.loads(x) for x in args.rules.read_text().splitlines()]
        text = f"{INTRODUCTION}\n\n{compared(lines)}"
        print(text)
        put_section("choosing a detector", text)
        return
    data = packaged_data.reader()
    for source in args.only:
        for name, parts in SOURCES[source](data):
            sizes = {part: len(one) for part, one in parts.items()}
            print(name, sizes, flush=True)
            with args.out.open("a") as stream:
                for line in cases(name, parts):
                    stream.write(json.dumps(line) + "\n")


def compared(lines: list[dict[str, Any]]) -> str:
    """Return a table: rules, and the usual one by the number of kinds."""
    every = [line for line in lines if line["kinds"] == "all others"]
    rows = [_row(rule, "all others", every) for rule in RULES]
    usual = next(iter(RULES))
    for n_kinds in sorted({line["n_kinds"] for line in lines}):
        same = [line for line in lines if line["n_kinds"] == n_kinds]
        rows.append(_row(usual, str(n_kinds), same))
    head = (
        "| rule | kinds to calibrate on | within two points | mean gap | OOSA "
        "| OOSA gain |"
    )
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def _row(rule: str, kinds: str, lines: list[Any]) -> str:
    single = RULES["one detector: mean and worst"]
    base = [single(line["candidates"])["oosa"] for line in lines]
    picked = [RULES[rule](line["candidates"]) for line in lines]
    oosa = np.array([one["oosa"] for one in picked])
    gaps = np.array([one["oracle"] for one in picked]) - oosa
    return (
        f"| {rule} | {kinds} | {(gaps <= WITHIN).sum()} of {gaps.size} "
        f"| {_mean(gaps)} | {oosa.mean():.3f} | {_mean(oosa - base, sign='+')} |"
    )


def _mean(values: Any, sign: str = "") -> str:
    return f"{values.mean():{sign}.3f} ± {values.std(ddof=1) / values.size**0.5:.3f}"


def _single(candidates: list[Any]) -> list[Any]:
    return [one for one in candidates if one["detector"] not in COMBINED]


def _named(candidates: list[Any], *names: str) -> dict[str, Any]:
    """Return the best of these."""
    return max((one for one in candidates if one["detector"] in names), key=_value)


def _as_it_is(candidates: list[Any]) -> dict[str, Any]:
    """Take a combination if it gains over choosing one."""
    combined = _named(candidates, RANK, STACKING)
    gain = _value(combined) - _value(_named(candidates, ONE))
    return combined if gain > MIN_GAIN else max(_single(candidates), key=_value)


def _as_it_was(candidates: list[Any]) -> dict[str, Any]:
    """Take a combination if it gains over the best single one."""
    combined = _named(candidates, RANK, STACKING)
    single = max(_single(candidates), key=_value)
    return combined if _value(combined) - _value(single) > MIN_GAIN else single


def _value(one: dict[str, Any]) -> float:
    return float((np.mean(one["groups"]) + min(one["groups"])) / 2)


def _loss(one: dict[str, Any]) -> float:
    """How far from the best thresholds of the kinds that were left out, on average."""
    return float(np.mean(np.subtract(one["oracles"], one["groups"])))


def _steady(candidates: list[dict[str, Any]], share: float) -> dict[str, Any]:
    """Among those within the noise of the best, take the steadiest."""
    best = max(candidates, key=_value)
    noise = share * float(np.mean(best["half"]))
    near = [one for one in candidates if _value(one) >= _value(best) - noise]
    return min(near, key=_loss)


RULES = {
    "combination, if it gains over choosing one (the rule)": _as_it_is,
    "one detector: mean and worst": lambda c: max(_single(c), key=_value),
    "one detector: mean": lambda c: max(
        _single(c), key=lambda one: np.mean(one["groups"])
    ),
    "one detector: worst": lambda c: max(
        _single(c), key=lambda one: min(one["groups"])
    ),
    "one detector: osa only": lambda c: max(
        (o for o in _single(c) if o["objective"] == "osa"), key=_value
    ),
    "one detector: worst_group only": lambda c: max(
        (o for o in _single(c) if o["objective"] == "worst_group"), key=_value
    ),
    "one detector: value less loss": lambda c: max(
        _single(c), key=lambda one: _value(one) - _loss(one)
    ),
    "one detector: steadiest within half the noise": lambda c: _steady(_single(c), 0.5),
    "one detector: steadiest within the noise": lambda c: _steady(_single(c), 1.0),
    "one detector: steadiest within twice the noise": lambda c: _steady(
        _single(c), 2.0
    ),
    "one detector, nothing left out": lambda c: _named(c, ONE),
    "combination, if it gains over the best one (as it was)": _as_it_was,
    "always the average of three": lambda c: _named(c, RANK),
    "always stacking": lambda c: _named(c, STACKING),
}

if __name__ == "__main__":
    main()
