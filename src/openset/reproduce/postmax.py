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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from openset import (
    _check,
    _io,
    bench,
    digits,
    report,
    runs,
    stats,
    thresholds,
)
from openset.metrics.counts import Alpha
from openset.outputs import Outputs
from openset.reproduce.item import Content, Entry, Settings
from openset.reproduce.studies import laid_out, study_text
from openset.results import Result, Results
from openset.scores import Scores

_N_SPLITS = 5  # of the known test samples
_LARGE = 100_000  # training samples from which on NNGuide keeps one per cent of them


@dataclass(frozen=True, eq=False, kw_only=True)
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
        return bench.named.saved_in(self.folder)

    def part(self, name: str) -> Outputs:
        """Return the outputs of a part; of unknowns, whatever their labels."""
        outputs = Outputs.load(self.parts[name])
        return outputs.as_unknown() if "/" in name else outputs

    def kinds(self, side: str, without: str = "") -> list[str]:
        """Return the kinds of unknowns to choose on ("surrogate") or to test on."""
        names = (name.split("/") for name in self.parts if name.startswith(f"{side}/"))
        return sorted(kind for _, kind in names if kind != without)

    def study(self, options: Mapping[str, Any]) -> bench.Study:
        """Return the study of an item: one of its protocols for each kind of unknowns.

        The kind that a threshold is chosen with is not tested on; it stands in place of
        a training method. `exchanged`: the threshold is chosen on what was the test
        set, as in Tables 3 and 4; `every`: with every kind of surrogates in turn.
        """
        given = yaml.safe_load(study_text(options.get("study", "postmax")))
        known = {"test": "test", "validation": "validation", "n_tests": _N_SPLITS}
        chosen = [self.surrogate]
        if options.get("exchanged"):
            known = {"test": "validation", "validation": "test", "n_tests": 1}
            chosen = [self.easy]
        if options.get("every"):
            chosen = self.kinds("surrogate") or chosen
        known |= {"path": self.folder.name, "model": self.title, "unknowns": "shared"}
        given["base"], given["outputs"] = self.folder.parent, []
        for one in chosen:
            name = f"surrogate/{one}"
            how = {"surrogate": name if name in self.parts else f"unknown/{one}"}
            for kind in self.kinds("unknown", without=one):
                about = {"name": kind, "method": one, "unknown": f"unknown/{kind}"}
                given["outputs"].append(known | how | about)
        if len(self.part("train")) > _LARGE:
            for recipe in given["detectors"]:
                if recipe["name"] == "nnguide":  # as its authors do on ImageNet
                    recipe["bank"] = 0.01
        return bench.Study.model_validate(given)


def networks(settings: Settings) -> Iterator[Network]:
    """Yield the networks of ``--outputs``; without it, the small one on digits."""
    folder = Path(settings.outputs or settings.out / "outputs")
    if settings.outputs is None:
        _write_digits(folder / "digits")
    found = sorted(folder.glob("*/network.json"))
    if not found:
        rule = "a folder with one folder per network, each with network.json"
        remedy = "docs/papers/postmax.md describes it"
        _check.fail("reproduce", "outputs", rule, folder, remedy)
    for path in found:
        run = settings.out / "runs" / path.parent.name
        with _io.naming(path):
            about = json.loads(path.read_bytes())
            network = Network(folder=path.parent, run=run, **about)
        yield network


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
    settings: Settings, network: Network
) -> tuple[Results, list[str], list[str]]:
    """Run the study of a network; return results, names of methods, and remarks."""
    study = network.study(settings.item.options)
    done = bench.run(study, network.run, **settings.running)
    n = {part: f"{len(network.part(part)):,}" for part in network.parts}
    unknown = [f"{n[f'unknown/{one}']} of {one}" for one in network.kinds("unknown")]
    note = (
        f"{network.title}: {n['train']} training samples, {n['validation']} for "
        f"validation, {n['test']} to test on; unknown: {', '.join(unknown)}."
    )
    why = {one["key"]["detector"]: one["error"] for one in done.failed}
    titles = [one.title for one in study.detectors]
    remarks = [note, *(f"{title}: {error}" for title, error in why.items())]
    return runs.results(network.run), titles, remarks


def tables(settings: Settings) -> Content:
    """Lay out one table per network and metric: columns are methods.

    Rows are unknowns, or what is varied: α, or the kind that the threshold is chosen
    with. A network of the paper has the published numbers beside ours.
    """
    options = settings.item.options
    varied, found, notes = options.get("varied"), [], []
    of_kinds = ", mean over unknowns" if varied else ""
    column = "method" if varied else "protocol"
    for network in networks(settings):
        results, titles, remarks = measured(settings, network)
        notes += remarks
        if "alphas" in options:
            results = Results(_over_alpha(network, options["alphas"]))
        rows = dict.fromkeys(getattr(row, column) for row in results)
        found += [
            laid_out(
                results,
                title=f"{name}, {network.title}{of_kinds}",
                rows={row: f"{network.title} · {row}" for row in rows},
                columns={one: {"paper": one, "detector": one} for one in titles},
                row=column,
                where={"metric": metric},
                beside=options.get("published", {}).get(name, ""),
                head=varied or "unknowns",
                with_mean=not varied and len(rows) > 1,
                over=("split",),
            )
            for name, metric in options["metrics"].items()
        ]
    return Content(tables=found, notes=[*notes, *options["notes"]])


def _over_alpha(network: Network, alphas: Sequence[Alpha]) -> Iterator[Result]:
    """Choose thresholds anew by each α, and report with it."""
    for cell in runs.read_cells(network.run):
        calibration, test = (
            Scores.load(network.run / part / f"{cell.id}.npz")
            for part in ("calibration", "scores")
        )
        for alpha in alphas:
            yield Result(
                protocol=cell.key["protocol"],
                split=cell.key["split"],
                method=str(alpha),
                detector=cell.key["detector"],
                metric="oosa",
                value=thresholds.operate(calibration, test, alpha=alpha).oosa,
            )


def tests(settings: Settings) -> Content:
    """Test PostMax against the others: paired t-tests with Bonferroni's correction."""
    found = []
    for network in networks(settings):
        results, *_ = measured(settings, network)
        # The paper counts splits of one network as runs.
        as_runs = Results(replace(one, repeat=one.split, split=0) for one in results)
        for name, metric in settings.item.options["metrics"].items():
            of_metric = as_runs.where(metric=metric)
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
    return settings.content(rows)


def _drawn(found: Sequence[Network]) -> Network:
    """Return the network that figures show: the one with most classes."""
    return max(found, key=lambda network: network.part("test").n_classes or 0)


def figure1(settings: Settings) -> Content:
    """Draw OSA over URR with the operational and the best threshold."""
    rows = []
    found = list(networks(settings))
    for network in found:
        results, titles, _ = measured(settings, network)
        aurocs: dict[str, list[float]] = {}
        for row in results.where(detector="MSP", metric="auroc"):
            aurocs.setdefault(row.protocol, []).append(row.value)
        kind = min(aurocs, key=lambda kind: sum(aurocs[kind]))
        cells: dict[str, Any] = {
            cell.key["detector"]: cell
            for cell in runs.read_cells(network.run)
            if (cell.key["protocol"], cell.key["split"]) == (kind, 0)
        }
        chosen, scores = {}, {}
        for title in filter(cells.__contains__, titles):
            cell = cells[title]
            done, chosen[title] = cell.operation, float(cell.threshold["value"])
            scores[title] = Scores.load(network.run / "scores" / f"{cell.id}.npz")
            (auroc,) = cell.results().where(metric="auroc").column("value").tolist()
            numbers = (done["oosa"], done["oracle"], done["gap"], auroc)
            rows.append((network.title, kind, title, *numbers))
        if network is _drawn(found):
            how = {"thresholds": chosen, "alpha": done["alpha"]}
            shown = report.osa_over_urr(scores, **how)
    return settings.content(rows, figure=shown)


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
    return settings.content(rows, figure=figure)
