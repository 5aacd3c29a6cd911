"""The PostMax paper (Cruz et al., ECCV 2024): studies of saved outputs of networks.

A folder holds one folder per network, so that the paper's own can be put in::

    NETWORK/network.json      {"title": ..., "surrogate": HARD, "easy": EASY}
    NETWORK/train             outputs of the training split
    NETWORK/validation        known samples to choose a threshold on
    NETWORK/test              known samples to test on
    NETWORK/surrogate/KIND    unknown samples to choose a threshold on, by kind
    NETWORK/unknown/KIND      unknown samples to test on, by kind

Each part is a folder of ``.npy`` files or a ``.npz`` file (`Outputs.save`). Thresholds
are chosen on validation and surrogate samples only, with equal weight of known and
unknown samples: in the paper there are equally many. On the test samples open-set
accuracy weighs them by their counts, as in the paper.
"""

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openset import (
    _check,
    _io,
    bench,
    digits,
    metrics,
    report,
    runs,
    stats,
    thresholds,
)
from openset._types import ArtefactError
from openset.metrics.counts import Alpha
from openset.outputs import Outputs
from openset.reproduce.item import Content, Entry, Settings, Table
from openset.reproduce.studies import laid_out
from openset.results import Result, Results
from openset.scores import Scores

METHODS = ("PostMax", "MSP", "MaxLogit", "NNGuide", "SCALE")
"""The methods of the paper, with default parameters."""

_METRICS = {
    "OOSA": "oosa",
    "AUROC": "auroc",
    "FPR95": "fpr_at_tpr",
    "OpenAUC": "openauc",
}
_N_SPLITS = 5  # of the known test samples
_LARGE = 100_000  # training samples from which on NNGuide keeps one per cent of them


@dataclass(frozen=True, eq=False)
class Network:
    """Saved outputs of one network, and the folder of its study."""

    folder: Path
    run: Path
    title: str
    surrogate: str  # kind of unknowns the threshold is chosen with
    easy: str  # the other one, for Tables 3 and 4

    @functools.cached_property
    def parts(self) -> dict[str, Path]:
        """The file or folder of every part; of unknowns, "unknown/KIND"."""
        here = [*self.folder.glob("*"), *self.folder.glob("*/*")]
        return {
            path.relative_to(self.folder).as_posix().removesuffix(".npz"): path
            for path in here
            if path.suffix == ".npz" or (path / "meta.json").exists()
        }

    def part(self, name: str) -> Outputs:
        """Return the outputs of a part; of unknowns, whatever their labels."""
        outputs = Outputs.load(self.parts[name])
        return outputs.as_unknown() if "/" in name else outputs

    def kinds(self, side: str, without: str = "") -> list[str]:
        """Return the kinds of unknowns to choose on ("surrogate") or to test on."""
        names = (name.split("/") for name in self.parts if name.startswith(f"{side}/"))
        return sorted(kind for _, kind in names if kind != without)

    def study(
        self, titles: Sequence[str], kinds: Sequence[str], *, exchanged: bool
    ) -> bench.Study:
        """Return the study of some methods, for thresholds chosen with these kinds.

        A method of the study is the kind that its threshold is chosen with, which is
        not tested on.
        """
        known, tested = ("test", "validation") if exchanged else ("validation", "test")
        outputs = [
            {
                "name": kind,
                "path": self.folder.name,
                "model": self.title,
                "method": chosen,
                "test": tested,
                "unknown": f"unknown/{kind}",
                "validation": known,
                "surrogate": name if (name := f"surrogate/{chosen}") in self.parts
                else f"unknown/{chosen}",
                "n_tests": 1 if exchanged else _N_SPLITS,
                "unknowns": "shared",
            }
            for chosen in kinds
            for kind in self.kinds("unknown", without=chosen)
        ]  # fmt: skip
        recipes: list[dict[str, Any]] = [
            {"name": title.lower(), "label": title} for title in titles
        ]
        for one in recipes:
            if one["label"] in ("l2", "l1", "none"):  # what PostMax divides by
                one |= {"name": "postmax", "norm": one["label"]}
            elif one["name"] == "nnguide" and len(self.part("train")) > _LARGE:
                one |= {"bank": 0.01}  # as its authors do on ImageNet
        return bench.Study.model_validate(
            {
                "outputs": outputs,
                "detectors": recipes,
                "calibrate": {"alpha_test": "counts"},
                "metrics": list(_METRICS.values()),
                "base": self.folder.parent,
            }
        )


def networks(settings: Settings) -> Iterator[Network]:
    """Yield the networks of ``--outputs``; without it, the small one on digits."""
    folder = settings.outputs or settings.out / "outputs"
    if settings.outputs is None:
        _write_digits(folder / "digits")
    found = sorted(folder.glob("*/network.json"))
    if not found:
        rule = "a folder with one folder per network, each with network.json"
        remedy = "docs/papers/postmax.md describes it"
        _check.fail("reproduce", "outputs", rule, folder, remedy)
    for path in found:
        try:
            about = json.loads(path.read_text("utf-8"))
            names = [str(about[key]) for key in ("title", "surrogate", "easy")]
        except (ValueError, KeyError, TypeError) as error:
            rule = "JSON with title, surrogate and easy"
            _check.fail("reproduce", str(path), rule, repr(error), error=ArtefactError)
        run = settings.out / "runs" / path.parent.name
        yield Network(path.parent, run, *names)


def _write_digits(folder: Path) -> None:
    if (folder / "network.json").exists():
        return
    demo, near, far = digits.demo(), "two digits", "two other digits"
    parts = {
        "train": demo.train,
        "validation": demo.validation,
        "test": demo.test,
        f"surrogate/{near}": demo.surrogate,
        f"unknown/{near}": demo.surrogate,
        f"unknown/{far}": demo.unseen,
    }
    for name, outputs in parts.items():
        outputs.save(folder / f"{name}.npz")
    title = "digits, no network of the paper"
    about = json.dumps({"title": title, "surrogate": near, "easy": far})
    _io.put(folder / "network.json", about)


def measured(
    settings: Settings, network: Network, kinds: Sequence[str] = ()
) -> tuple[Results, list[str]]:
    """Run the study of a network; return its results, and remarks on it."""
    options = settings.item.options
    exchanged = options.get("exchanged", False)
    kinds = kinds or [network.easy if exchanged else network.surrogate]
    study = network.study(options.get("methods", METHODS), kinds, exchanged=exchanged)
    done = bench.run(study, network.run, **settings.running)
    n = {part: f"{len(network.part(part)):,}" for part in network.parts}
    unknown = [f"{n[f'unknown/{one}']} of {one}" for one in network.kinds("unknown")]
    note = (
        f"{network.title}: {n['train']} training samples, {n['validation']} for "
        f"validation, {n['test']} to test on; unknown: {', '.join(unknown)}."
    )
    why = {one["key"]["detector"]: one["error"] for one in done.failed}
    return runs.results(network.run), [note, *(f"{k}: {why[k]}" for k in why)]


def _table(
    results: Results,
    name: str,
    rows: dict[str, str],
    row: str,
    *,
    titles: Sequence[str] = METHODS,
    **layout: Any,
) -> Table:
    """Lay out one metric by method: mean and spread over splits, means over kinds."""
    columns = {title: {"paper": title, "detector": title} for title in titles}
    layout |= {"where": {"metric": _METRICS[name]}, "over": ("split",)}
    return laid_out(results, rows=rows, columns=columns, row=row, **layout)


def tables(settings: Settings) -> Content:
    """Lay out one table per network and metric: rows are unknowns, columns methods.

    A network of the paper has the published numbers beside ours.
    """
    options = settings.item.options
    found, notes = [], []
    for network in networks(settings):
        results, remarks = measured(settings, network)
        notes += remarks
        kinds = dict.fromkeys(row.protocol for row in results)
        rows = {kind: f"{network.title} · {kind}" for kind in kinds}
        for name in options["metrics"]:
            beside = options.get("published", {}).get(name, "")
            layout = {"title": f"{name}, {network.title}", "head": "unknowns"}
            layout |= {"titles": options.get("methods", METHODS)}
            table = _table(results, name, rows, "protocol", beside=beside, **layout)
            means = _table(results, name, {"mean": ""}, "", **layout)
            if len(rows) > 1 and means.columns == table.columns:  # none of a paper
                table = replace(table, rows=[*table.rows, *means.rows])
            found.append(table)
    chosen = "the easy" if options.get("exchanged") else "the surrogate"
    notes.append(f"Thresholds are chosen with {chosen} unknowns, which are not tested.")
    return Content(tables=found, notes=notes)


def vary(settings: Settings) -> Content:
    """Vary what the threshold is chosen with: α, or the kind of unknowns."""
    found, options = [], settings.item.options
    for network in networks(settings):
        kinds = network.kinds("surrogate") or [network.surrogate]
        alphas = options.get("alphas")
        results, _ = measured(settings, network, () if alphas else kinds)
        if alphas:
            results = Results(_over_alpha(network, alphas))
        rows = dict.fromkeys(map(str, alphas or kinds), "")
        layout = {"title": f"OOSA, {network.title}, mean over unknowns"}
        layout["head"] = options["varied"]
        found.append(_table(results, "OOSA", rows, "method", **layout))
    return Content(tables=found, notes=[options["note"]])


def _over_alpha(network: Network, alphas: Sequence[Alpha]) -> Iterator[Result]:
    """Choose thresholds anew by each α, and report with it."""
    for cell in runs.read_cells(network.run):
        for alpha in alphas:
            _, done = _operated(network, cell, alpha=alpha, alpha_test=alpha)
            yield Result(
                protocol=cell.key["protocol"],
                split=cell.key["split"],
                method=str(alpha),
                detector=cell.key["detector"],
                metric="oosa",
                value=done.oosa,
            )


def _operated(
    network: Network, cell: runs.Cell, **alphas: Any
) -> tuple[Scores, thresholds.Operation]:
    """Return the test scores of a cell, and how a threshold does on them."""
    calibration, test = (
        Scores.load(network.run / part / f"{cell.id}.npz")
        for part in ("calibration", "scores")
    )
    return test, thresholds.operate(calibration, test, **alphas)


def tests(settings: Settings) -> Content:
    """Test PostMax against the others: paired t-tests with Bonferroni's correction."""
    found = []
    for network in networks(settings):
        results, _ = measured(settings, network)
        # The paper counts splits of one network as runs.
        as_runs = Results(replace(one, repeat=one.split, split=0) for one in results)
        for name in ("OOSA", "AUROC", "FPR95"):
            of_metric = as_runs.where(metric=_METRICS[name])
            how: dict[str, Any] = {"against": "PostMax", "correction": "none"}
            made = stats.paired_t(of_metric, pool=True, **how)
            found += [(network.title, name, test) for test in made]
    p_values = [test.p_value for *_, test in found if test.p_value is not None]
    corrected = iter(stats.adjust(p_values, "bonferroni"))
    rows: list[list[Entry]] = []
    for title, name, test in found:
        gain = -test.difference if name == "FPR95" else test.difference
        p = "–" if test.p_value is None else f"{next(corrected):.1g}"
        rows.append([title, name, test.b, gain, test.n, p])
    table = Table(
        title="PostMax against the others, all kinds of unknowns pooled",
        columns=("network", "metric", "against", "difference", "runs", "p"),
        rows=rows,
    )
    return Content(tables=[table], notes=settings.item.options["notes"])


def _drawn(found: Sequence[Network]) -> Network:
    """Return the network that figures show: the one with most classes."""
    return max(found, key=lambda network: network.part("test").n_classes or 0)


def figure1(settings: Settings) -> Content:
    """Draw OSA over URR with the operational and the best threshold."""
    rows = []
    shown: dict[str, Any] = {"scores": {}, "thresholds": {}}
    found = list(networks(settings))
    for network in found:
        results, _ = measured(settings, network)
        kinds = dict.fromkeys(row.protocol for row in results)
        of_msp = results.where(detector="MSP", metric="auroc")
        aurocs = {
            kind: of_msp.where(protocol=kind).column("value").mean() for kind in kinds
        }
        kind = min(kinds, key=aurocs.__getitem__)
        cells = {
            cell.key["detector"]: cell
            for cell in runs.read_cells(network.run)
            if (cell.key["protocol"], cell.key["split"]) == (kind, 0)
        }
        for title in (title for title in METHODS if title in cells):
            test, done = _operated(network, cells[title], alpha_test="counts")
            if network is _drawn(found):
                shown["scores"][title] = test
                shown["thresholds"][title] = done.threshold
                shown["alpha"] = done.alpha_test
            numbers = (done.oosa, done.oracle, done.gap, metrics.auroc(test))
            rows.append((network.title, kind, title, *numbers))
    table = Table(
        title="Operational threshold and oracle: first test split, kind of unknowns "
        "with the lowest AUROC of MSP",
        columns=(
            *("network", "unknowns", "method", "OOSA (star)", "best OSA (diamond)"),
            *("gap", "AUROC"),
        ),
        rows=rows,
    )
    return Content(
        tables=[table], figures={settings.item.name: report.osa_over_urr(**shown)}
    )


def figure2(settings: Settings) -> Content:
    """Measure feature magnitudes of known and unknown samples."""
    rows = []
    found = list(networks(settings))
    for network in found:
        sets = {"known": network.part("test")}
        sets |= {k: network.part(f"unknown/{k}") for k in network.kinds("unknown")}
        shown = report.feature_magnitudes(sets)
        if network is _drawn(found):
            figure = shown
        for row in shown.brief.rows:
            entries = [None if entry == "–" else entry for entry in row]
            rows.append((network.title, *entries))
    table = Table(
        title="Feature magnitudes (L2 norm), and what dividing by them does",
        columns=(
            *("network", "group", "samples", "mean", "median"),
            *("share of pairs longer than known", "AUROC, max logit"),
            "AUROC, max logit / magnitude",
        ),
        rows=rows,
    )
    return Content(tables=[table], figures={settings.item.name: figure})
