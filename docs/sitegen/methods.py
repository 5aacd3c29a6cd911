"""Pages of detectors and training methods, made from their registries."""

import functools
import inspect
import json
import re
import statistics
import warnings
from pathlib import Path
from typing import Any

import openset as ops
from sitegen import figures
from sitegen.api import Made
from sitegen.docstrings import markdown

# When a detector is worth a try: from its paper, and from docs/results/detectors.md.
WHEN = {
    "msp": "The baseline: report it always. It needs nothing but logits or probabilities.",
    "maxlogit": "As cheap as MSP, and often better: the length of the logits, which a "
    "softmax removes, says something about how known a sample is.",
    "energy": "Like MaxLogit, where several classes share the evidence.",
    "gen": "For classifiers with many classes, when only probabilities are at hand.",
    "mcm": "For zero-shot classifiers that compare images with texts, such as CLIP.",
    "postmax": "Where unknown samples have longer features than known ones. Measure that "
    "first: `openset calibrate` prints it.",
    "openmax": "For comparison with the literature. Give it enough correctly classified "
    "training samples of every class.",
    "knn": "When you can keep the training features, and search them, at run time. Strong "
    "on images.",
    "nnguide": "Like KNN, weighted by the confidence of the classifier.",
    "mahalanobis": "When each class is one compact cloud of features.",
    "rmds": "Like Mahalanobis, for unknowns that are close to the known classes.",
    "vim": "For networks with wide features: it uses what the last layer does not see.",
    "react": "For ReLU networks in which unknown samples produce a few very large features.",
    "ash": "As ReAct: it changes features, and needs no training data at all.",
    "scale": "As ASH, but it leaves the order of the classes unchanged.",
    "fdbd": "When logits and features are at hand and scoring must be cheap.",
    "nci": "As fDBD. It leads on sentence embeddings in our comparison.",
    "osnn": "For tables and other data with meaningful distances, and for small data sets.",
    "nno": "When classes must be added later: it keeps one mean per class.",
    "evm": "When classes must be added later and the training set is small.",
    "wsvm": "For tables with few thousand training samples.",
    "pisvm": "As W-SVM.",
    "entropy": "Like MSP, looking at all probabilities. In our comparisons it is hardly "
    "ever behind MSP.",
    "temperature": "MSP on calibrated probabilities. Fit it on held-out outputs; it "
    "mostly ranks samples as MSP does.",
    "klm": "For many classes that are confused in typical ways.",
    "gradnorm": "For comparison with the literature: last or nearly so on small networks.",
    "lts": "As SCALE, without any training data or weights.",
    "dice": "For wide networks trained on ImageNet, after its paper; on small networks it "
    "was last.",
    "vra": "As ReAct, when small activations are noise, too.",
    "she": "When one mean feature per class is all that can be kept.",
    "relation": "Like KNN, counting neighbours of similar predictions.",
    "core": "When logits, features and weights are at hand and scoring must be cheap: "
    "among the first on most of our problems.",
    "gmm": "For tables and small features, with many training samples of each class.",
    "pnml": "For image networks: it leads on MNIST in our comparison.",
    "residual": "ViM without its energy: for unknowns that leave the principal space.",
    "weiper": "For comparison with the literature: a hundred times the last layer's cost.",
}
_NEEDS = {
    "logits": "logits",
    "features": "features",
    "labels": "labels",
    "head": "weights of the last layer",
}
_SENTENCES = ['<div class="sentences" markdown>', ""]  # before a table of sentences
_SECTION = re.compile(r"^(\w[\w ]+)\n-{3,}\n", re.MULTILINE)
_METRICS = ("openauc", "auroc", "fpr_at_tpr", "ccr_at_fpr_0.1")
# Written by benchmarks/training_methods.py.
_RUNS = Path(__file__).parents[2] / "benchmarks" / "results" / "training_methods.jsonl"


def sections(kind: type) -> dict[str, str]:
    """Return the sections of a docstring; the text before the first is ``""``."""
    parts = _SECTION.split(inspect.cleandoc(kind.__doc__ or ""))
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def options(text: str) -> str:
    """Return the section Parameters as a table."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            rows.append([line.partition(" :")[0], ""])
        elif rows:
            rows[-1][1] += " " + line.strip()
    lines = [f"| `{name}` | {markdown(said).strip()} |".replace("\n", " ")
             for name, said in rows]  # fmt: skip
    return "\n".join(["| option | meaning |", "|---|---|", *lines])


def _listed(needs: tuple[str, ...]) -> str:
    return ", ".join(_NEEDS[need] for need in needs) or "nothing"


def _title(kind: Any) -> str:
    return getattr(kind, "title", kind.__name__)  # that of papers, for training methods


def _body(kind: Any, api: str) -> list[str]:
    found = sections(kind)
    text = [f"# {_title(kind)}", "", markdown(found[""]), ""]
    more = []
    if "Parameters" in found:
        more += ["## Options", "", options(found["Parameters"]), ""]
    if "References" in found:
        more += ["## Reference", "", markdown(found["References"]), ""]
    more += [f"Everything else: [`{kind.__name__}` in the API reference]({api}).", ""]
    return [*text, *more]


def _fit(kind: Any) -> Any:
    train = figures.digits().train
    return kind().fit(train) if kind.fit_needs else kind().fit()


def _plot(scores: ops.Scores) -> list[str]:
    return [figures.framed(ops.report.histogram(scores, bins=30).svg()), ""]


def _numbers(scores: ops.Scores) -> str:
    result = ops.evaluate(scores)
    labels = {row.key: row.label for row in ops.metrics.table()}
    named = {"fpr_at_tpr": "FPR95 (known positive)"}
    return "; ".join(
        f"{named.get(key, labels[key])} = {result[key]:.3f}" for key in _METRICS
    )


def detector_page(name: str) -> str:
    """Return the page of a detector: what it computes, needs and costs, and a plot."""
    kind = ops.detectors.find(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = _fit(kind).score(figures.tested())
    head, *rest = _body(
        kind, f"../api/openset.detectors.md#openset.detectors.{kind.__name__}"
    )
    when = WHEN.get(name)
    cost = f"{kind.fit_cost} to fit, {kind.score_cost} per sample to score"
    facts = [
        "",
        "| | |",
        "|---|---|",
        f"| name | `{name}` |",
        f"| score | {kind.score_scale} |",
        f"| needs, to fit | {_listed(kind.fit_needs)} |",
        f"| needs, to score | {_listed(kind.score_needs)} |",
        f"| cost | {cost.replace('- to fit', 'none to fit').replace('*', '·')} |",
        f"| published in | {kind.paper} |",
        *([f"| when to use it | {when} |"] if when else []),
        "",
        "n: training samples, C: classes, d: features.",
        "",
    ]
    plot = [
        "## On real data",
        "",
        "Handwritten digits of scikit-learn, the network of `openset demo`: six digits are "
        "known, two unknown ones are tested. Larger values are more known.",
        "",
        *_plot(scores),
        f"{_numbers(scores)}. One small network cannot rank methods: see "
        "[detectors compared](../results/detectors.md).",
        "",
        "```python",
        "import openset as ops",
        "",
        'train = ops.Outputs.load("demo-output/train.npz")  # what `openset demo` wrote',
        'unseen = ops.Outputs.load("demo-output/unseen.npz")',
        f"fitted = ops.detectors.{kind.__name__}().fit({'train' if kind.fit_needs else ''})",
        "fitted.score(unseen).known  # one knownness per sample",
        "```",
        "",
    ]
    body = "\n".join(rest)
    before, mark, after = body.partition("## Options")
    if not mark:
        before, mark, after = body.partition("## Reference")
    return "\n".join([head, *facts, before, *plot, mark + after])


def detector_pages() -> Made:
    """Return a page per detector, and a table of all."""
    made = Made()
    rows = []
    for name in ops.detectors.names():
        kind = ops.detectors.find(name)
        made.files[f"detectors/{name}.md"] = detector_page(name)
        made.nav.append({_title(kind): f"detectors/{name}.md"})
        said = markdown((kind.__doc__ or "").partition("\n")[0])
        needs = sorted({*kind.fit_needs, *kind.score_needs}, key=list(_NEEDS).index)
        rows.append(
            f"| [{_title(kind)}]({name}.md) | {said} | {_listed(tuple(needs))} | {kind.paper} |"
        )
    table = ["| detector | knownness | needs | paper |", "|---|---|---|---|", *rows]
    made.files["detectors/index.md"] = "\n".join([
        "# Detectors",
        "",
        "A detector computes one number per sample, its *knownness*, from the outputs of a "
        "trained network. No detector is best everywhere: see "
        "[how they compare](../results/detectors.md), and let "
        "[`choose`](../operating.md) pick for your data. How to use them: "
        "[score with detectors](../detectors.md).",
        "",
        *_SENTENCES,
        *table,
        "",
        "</div>",
        "",
    ])  # fmt: skip
    made.nav.insert(0, "detectors/index.md")
    return made


@functools.cache
def training_runs() -> dict[str, list[dict[str, Any]]]:
    """Return the runs on digits of each training method, by seed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in _RUNS.read_text("utf-8").splitlines():
        one = json.loads(line)
        found.setdefault(one["method"], []).append(one)
    return {name: sorted(runs, key=lambda r: r["seed"]) for name, runs in found.items()}


def on_digits(name: str, *, has_negatives: bool) -> list[str]:
    """Return the section with the plot of a training method, if it was run."""
    runs = training_runs().get(name)
    if not runs:  # a method of an installed package
        return []
    first = runs[0]
    scores = ops.Scores(**first["scores"])
    is_rows = first["network"] == "mlp"
    network = (
        "a perceptron with two hidden layers"
        if is_rows
        else "three convolutions, digits enlarged to 32 × 32 pixels"
    )
    negatives = " The remaining three are the negatives." if has_negatives else ""
    worse = (
        " An AUROC below 0.5: here unknown digits get the higher scores."
        if ops.metrics.auroc(scores) < 0.5
        else ""
    )
    return [
        "## On real data",
        "",
        f"Handwritten digits of scikit-learn: {len(first['known'])} digits are known, "
        f"{len(first['unknown'])} others are unknown.{negatives} A small network "
        f"({network}) was trained by this method on {first['n_train']} samples for "
        f"{first['epochs']} epochs. Knownness is the score the method was published with; "
        "larger values are more known.",
        "",
        *_plot(scores),
        f"Seed {first['seed']}: {_numbers(scores)}.{worse}{_over_seeds(runs)} Trained on "
        f"one core ({first['machine']}) by `benchmarks/training_methods.py`. Data this "
        "small cannot rank methods: see [training recipes](../results/training.md) for "
        "larger runs.",
        "",
        *(_repeated(first, has_negatives=has_negatives) if is_rows else []),
    ]


def _over_seeds(runs: list[dict[str, Any]]) -> str:
    if len(runs) == 1:
        return " This is one run."
    values = [run["openauc"] for run in runs]
    return (
        f" Seeds {runs[0]['seed']} to {runs[-1]['seed']}, each with other known and "
        f"unknown digits: OpenAUC = {statistics.mean(values):.3f} ± "
        f"{statistics.stdev(values):.3f} (standard deviation)."
    )


def _repeated(run: dict[str, Any], *, has_negatives: bool) -> list[str]:
    """Return the commands that make a run again."""
    negatives = " --negatives digits" if has_negatives else ""
    return [
        "To repeat this run:",
        "",
        "```sh",
        f"openset protocols holdout digits --known {len(run['known'])} "
        f"--unknown {len(run['unknown'])} --out digits.json",
        f"openset train --method {run['method']} --data digits --protocol digits.json \\",
        f"    --recipe {run['recipe']} --epochs {run['epochs']} --lr {run['lr']:g}"
        f"{negatives} --out runs/digits",
        "```",
        "",
    ]


def training_pages() -> Made:
    """Return a page per training method, and a table of all."""
    from openset.train import methods  # imports torch

    made = Made()
    rows = []
    for name in methods.names():
        kind = methods.find(name)
        api = f"../api/openset.train.methods.md#openset.train.methods.{kind.__name__}"
        head, *rest = _body(kind, api)
        use = [
            "",
            f"`{name}`: {kind.paper}.",
            "",
        ]
        has_negatives = issubclass(kind, methods.WithNegatives)
        plot = on_digits(name, has_negatives=has_negatives)
        shell = [
            "## Use it",
            "",
            "```sh",
            f"openset train --method {name} --data cifar10 --split 0"
            + (" --negatives svhn" if has_negatives else "")
            + f" --out runs/{name}",
            "```",
            "",
            "How to choose a recipe, a network and data: [training](../training.md). What was "
            "measured: [training recipes](../results/training.md).",
            "",
        ]
        body = "\n".join(rest)
        before, mark, after = body.partition("## Options")
        if not mark:
            before, mark, after = body.partition("## Reference")
        made.files[f"training/{name}.md"] = "\n".join(
            [head, *use, before, *plot, *shell, mark + after]
        )
        made.nav.append({_title(kind): f"training/{name}.md"})
        said = markdown((kind.__doc__ or "").partition("\n")[0])
        rows.append(
            f"| [{_title(kind)}]({name}.md) | `{name}` | {said} | {kind.paper} |"
        )
    made.files["training/index.md"] = "\n".join([
        "# Training methods",
        "",
        "A training method is a loss, the parameters it adds, and the score it was "
        "published with. All of them on one page, with what papers and their code do "
        "differently: [training methods](../methods.md).",
        "",
        *_SENTENCES,
        "| method | name | what it does | paper |",
        "|---|---|---|---|",
        *rows,
        "",
        "</div>",
        "",
    ])  # fmt: skip
    made.nav.insert(0, "training/index.md")
    return made
