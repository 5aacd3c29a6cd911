"""The PostMax paper (Cruz et al., ECCV 2024), on saved outputs of networks.

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
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io, detectors, digits, metrics, report, stats, thresholds
from openset._types import ArtefactError
from openset.metrics.counts import Alpha
from openset.outputs import Outputs
from openset.protocols.sampling import Stream, deal
from openset.reproduce.item import Content, Entry, Measured, Settings, Table, published
from openset.results import Result, Results
from openset.scores import Scores

METHODS = ("PostMax", "MSP", "MaxLogit", "NNGuide", "SCALE")
"""The methods of the paper, with default parameters."""

NORMS = ("l2", "l1", "none")
"""What PostMax can divide by."""

_METRICS = {
    "OOSA": "oosa",
    "AUROC": "auroc",
    "FPR95": "fpr_at_tpr",
    "OpenAUC": "openauc",
}
_KNOWN = ("train", "validation", "test")
_N_SPLITS = 5  # of the known test samples
_LARGE = 100_000  # training samples from which on NNGuide keeps one per cent of them


@dataclass(frozen=True, eq=False)
class Network:
    """Saved outputs of one network, and scores of methods on them."""

    folder: Path
    cache: Path
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

    @functools.cache  # noqa: B019  # networks live as long as the program
    def part(self, name: str) -> Outputs:
        """Return the outputs of a part; of unknowns, whatever their labels."""
        outputs = Outputs.load(self.parts[name])
        return outputs.as_unknown() if "/" in name else outputs

    def kinds(self, side: str, without: str = "") -> list[str]:
        """Return the kinds of unknowns to choose on ("surrogate") or to test on."""
        names = (name.split("/") for name in self.parts if name.startswith(f"{side}/"))
        return sorted(kind for _, kind in names if kind != without)

    def chosen_with(self, kind: str) -> str:
        """Return the part with unknowns of a kind to choose a threshold on."""
        name = f"surrogate/{kind}"
        return name if name in self.parts else f"unknown/{kind}"

    def fit(self, title: str) -> detectors.Fitted:
        """Fit a method to the training part."""
        train, name = self.part("train"), title.lower()
        options: dict[str, Any] = {}
        if title in NORMS:
            name, options = "postmax", {"norm": title}
        elif title == "NNGuide" and len(train) > _LARGE:
            options = {"bank": 0.01}  # as its authors do on ImageNet
        with warnings.catch_warnings():
            # NNGuide warns of negative energies; the table shows what comes of them.
            warnings.simplefilter("ignore", UserWarning)
            return detectors.make(name, **options).fit(train)

    def scores(self, title: str, part: str) -> Scores:
        """Return the scores of a method, or of PostMax with a norm; kept on disk."""
        path = self.cache / title / f"{part.replace('/', '-')}.npz"
        if not path.exists():
            fitted = self.fit(title)
            for name in self.parts.keys() - {"train"}:
                to = path.with_name(f"{name.replace('/', '-')}.npz")
                _without_groups(fitted.score(self.part(name))).save(to)
        return Scores.load(path)

    def usable(self, titles: Sequence[str]) -> list[str]:
        """Return the methods that can score this network's features: all but SCALE."""
        features = self.part("train").features
        is_negative = features is not None and bool((features < 0).any())
        return [title for title in titles if title != "SCALE" or not is_negative]

    def threshold(
        self, title: str, known: str, kind: str, alpha: Alpha = 0.5
    ) -> thresholds.Threshold:
        """Choose a threshold on known samples and on unknowns of one kind."""
        parts = (known, self.chosen_with(kind))
        calibration = Scores.concat([self.scores(title, part) for part in parts])
        return thresholds.osa(calibration, alpha=alpha)


def _without_groups(scores: Scores) -> Scores:
    return Scores(
        labels=scores.labels,
        predicted=scores.predicted,
        known=scores.known,
        n_classes=scores.n_classes,
    )


def networks(outputs: Path | None, out: Path) -> list[Network]:
    """Return the networks of ``--outputs``; without it, the small one on digits."""
    folder, cache = out / "outputs" if outputs is None else outputs, out / "scores"
    if outputs is None:
        _write_digits(folder / "digits")
    found = sorted(path.parent for path in folder.glob("*/network.json"))
    if not found:
        rule = "a folder with one folder per network, each with network.json"
        remedy = "docs/papers/postmax.md describes it"
        _check.fail("reproduce", "outputs", rule, folder, remedy)
    return [_network(path, cache / path.name) for path in found]


def _network(folder: Path, cache: Path) -> Network:
    path = folder / "network.json"
    try:
        about = json.loads(path.read_text("utf-8"))
        names = [str(about[key]) for key in ("title", "surrogate", "easy")]
    except (ValueError, KeyError, TypeError) as error:
        rule = "JSON with title, surrogate and easy"
        _check.fail("reproduce", str(path), rule, repr(error), error=ArtefactError)
    return Network(folder, cache, *names)


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


def splits_of(labels: Any, n: int) -> Any:
    """Return the split of every known test sample: equal numbers of every class."""
    return deal(labels, n, Stream("bench", 0))


def measure(
    network: Network,
    titles: Sequence[str],
    *,
    surrogate: str = "",
    exchanged: bool = False,
    alpha: Alpha = 0.5,
    alpha_test: Alpha = "counts",
) -> Results:
    """Return every metric of every method, kind of unknowns and test split.

    The kind that the threshold is chosen with is not tested on. `exchanged`: the
    threshold is chosen on what was the test set, as in Tables 3 and 4.
    """
    known, tested = ("test", "validation") if exchanged else ("validation", "test")
    kind = surrogate or (network.easy if exchanged else network.surrogate)
    n = 1 if exchanged else _N_SPLITS
    split = splits_of(network.part(tested).labels, n)
    rows = []
    for title in network.usable(titles):
        threshold = network.threshold(title, known, kind, alpha)
        scores = network.scores(title, tested)
        for other in network.kinds("unknown", without=kind):
            unknown = network.scores(title, f"unknown/{other}")
            for i in range(n):
                test = Scores.concat([scores.take(split == i), unknown])
                done = thresholds.operate(threshold, test, alpha_test=alpha_test)
                for key in _METRICS.values():
                    value = done.oosa if key == "oosa" else metrics.get(key).value(test)
                    rows.append(
                        Result(
                            protocol=other,
                            repeat=i,
                            model=network.title,
                            detector=title,
                            metric=key,
                            value=value,
                        )
                    )
    return Results(rows)


def _over_kinds(results: Results, title: str, name: str) -> Measured | None:
    """Return a number over the splits, each a mean over kinds of unknowns."""
    mine = results.where(detector=title, metric=_METRICS[name])
    splits = [mine.where(repeat=i).column("value") for i in range(_N_SPLITS)]
    values = [float(np.mean(split)) for split in splits if split.size]
    return Measured.of(values) if values else None


def _best(of: Mapping[str, Measured | None], name: str) -> str:
    """Return the title of the method with the best value; of FPR95, the lowest."""
    sign = -1 if name == "FPR95" else 1
    values = {title: sign * one.value for title, one in of.items() if one is not None}
    return max(values, key=values.__getitem__)


def tables(settings: Settings) -> Content:
    """Lay out one table per network and metric: rows are unknowns, columns methods.

    A network of the paper has the published numbers beside ours.
    """
    options = settings.item.options
    titles, exchanged = options.get("methods", METHODS), "exchanged" in options
    found, notes = [], []
    for network in networks(settings.outputs, settings.out):
        results = measure(network, titles, exchanged=exchanged)
        kinds = dict.fromkeys(row.protocol for row in results)
        for name in options["metrics"]:
            file = options.get("published", {}).get(name)
            paper = published(file) if file else {}
            rows: list[list[Entry]] = []
            for kind in kinds:
                one = results.where(protocol=kind)
                ours = {title: _over_kinds(one, title, name) for title in titles}
                said = paper.get(f"{network.title} · {kind}")
                shown = ours if said is None else _beside(said, ours)
                n = len(network.part(f"unknown/{kind}"))
                rows.append([f"{kind} ({n:,})", *shown.values(), _best(ours, name)])
            if len(rows) > 1 and said is None:
                ours = {title: _over_kinds(results, title, name) for title in titles}
                rows.append(["mean", *ours.values(), _best(ours, name)])
            heads = ("unknowns", *shown, "best")
            found.append(
                Table(title=f"{name}, {network.title}", columns=heads, rows=rows)
            )
        notes.append(_note(network))
    chosen = "the easy" if exchanged else "the surrogate"
    notes.append(f"Thresholds are chosen with {chosen} unknowns, which are not tested.")
    return Content(tables=found, notes=notes)


def _beside(
    said: Mapping[str, Measured], ours: Mapping[str, Measured | None]
) -> dict[str, Measured | None]:
    """Put the published number of each method before ours."""
    pairs = ({f"{t}, paper": said.get(t), t: one} for t, one in ours.items())
    return {head: entry for pair in pairs for head, entry in pair.items()}


def _note(network: Network) -> str:
    n = {part: f"{len(network.part(part)):,}" for part in _KNOWN}
    note = (
        f"{network.title}: {n['train']} training samples, {n['validation']} for "
        f"validation, {n['test']} to test on."
    )
    if "SCALE" not in network.usable(METHODS):
        note += " SCALE is not defined for features with negative entries."
    return note


def vary(settings: Settings) -> Content:
    """Vary what the threshold is chosen with: α, or the kind of unknowns."""
    found, options = [], settings.item.options
    for network in networks(settings.outputs, settings.out):
        variants: dict[str, dict[str, Any]] = {
            str(alpha): {"alpha": alpha, "alpha_test": alpha}
            for alpha in options.get("alphas", ())
        }
        if not variants:
            kinds = network.kinds("surrogate") or [network.surrogate]
            variants = {kind: {"surrogate": kind} for kind in kinds}
        rows = []
        for name, changed in variants.items():
            results = measure(network, METHODS, **changed)
            of = {title: _over_kinds(results, title, "OOSA") for title in METHODS}
            rows.append([name, *of.values(), _best(of, "OOSA")])
        found.append(
            Table(
                title=f"OOSA, {network.title}, mean over unknowns",
                columns=(options["varied"], *METHODS, "best"),
                rows=rows,
            )
        )
    return Content(tables=found, notes=[options["note"]])


def tests(settings: Settings) -> Content:
    """Test PostMax against the others: paired t-tests with Bonferroni's correction."""
    found = []
    for network in networks(settings.outputs, settings.out):
        results = measure(network, METHODS)
        for name in ("OOSA", "AUROC", "FPR95"):
            key = _METRICS[name]
            mine = results.where(metric=key)
            tested = stats.paired_t(
                mine, key, against="PostMax", correction="none", pool=True
            )
            found += [(network.title, name, test) for test in tested]
    corrected = iter(
        stats.adjust(
            [t.p_value for *_, t in found if t.p_value is not None], "bonferroni"
        )
    )
    rows: list[list[Entry]] = []
    for network_title, name, test in found:
        gain = -test.difference if name == "FPR95" else test.difference
        p = "–" if test.p_value is None else f"{next(corrected):.1g}"
        rows.append([network_title, name, test.b, gain, test.n, p])
    table = Table(
        title="PostMax against the others, all kinds of unknowns pooled",
        columns=("network", "metric", "against", "difference", "runs", "p"),
        rows=rows,
    )
    notes = (
        "A positive difference favours PostMax (of FPR95 the sign is turned). p-values "
        "are of paired, two-sided t-tests, corrected by Bonferroni for all rows.",
        "The five splits share network, detector, threshold and unknowns: these tests "
        "say that a difference is not due to the choice of known test samples, and "
        "nothing about other networks or other unknowns.",
    )
    return Content(tables=[table], notes=notes)


def _drawn(found: Sequence[Network]) -> Network:
    """Return the network that figures show: the one with most classes."""
    return max(found, key=lambda network: network.part("test").n_classes or 0)


def figure1(settings: Settings) -> Content:
    """Draw OSA over URR with the operational and the best threshold."""
    rows = []
    shown: dict[str, Any] = {"scores": {}, "thresholds": {}}
    found = networks(settings.outputs, settings.out)
    for network in found:
        split = splits_of(network.part("test").labels, _N_SPLITS)
        kind = _hardest(network)
        for title in network.usable(METHODS):
            known = network.scores(title, "test").take(split == 0)
            test = Scores.concat([known, network.scores(title, f"unknown/{kind}")])
            chosen = network.threshold(title, "validation", network.surrogate)
            done = thresholds.operate(chosen, test, alpha_test="counts")
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


def _hardest(network: Network) -> str:
    """Return the kind of test unknowns with the lowest AUROC of MSP."""

    def auroc(kind: str) -> float:
        parts = [network.scores("MSP", name) for name in ("test", f"unknown/{kind}")]
        return metrics.auroc(Scores.concat(parts))

    return min(network.kinds("unknown", without=network.surrogate), key=auroc)


def figure2(settings: Settings) -> Content:
    """Measure feature magnitudes of known and unknown samples."""
    rows = []
    found = networks(settings.outputs, settings.out)
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
