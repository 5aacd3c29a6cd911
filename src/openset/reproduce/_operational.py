"""Outputs of networks on known and unknown samples, as the PostMax paper uses them.

A folder holds one folder per network::

    NETWORK/network.json      {"title": ..., "surrogate": HARD, "easy": EASY}
    NETWORK/train             outputs of the training split
    NETWORK/validation        known samples to choose a threshold on
    NETWORK/test              known samples to test on
    NETWORK/surrogate/KIND    unknown samples to choose a threshold on, by kind
    NETWORK/unknown/KIND      unknown samples to test on, by kind

Each part is a folder of ``.npy`` files or a ``.npz`` file (`Outputs.save`).
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, datasets, detectors, protocols
from openset._types import UNKNOWN, ArtefactError
from openset.bench import MLPModel, fit_model, test_splits
from openset.detectors import Detector
from openset.outputs import Outputs
from openset.reproduce._item import Settings
from openset.scores import Scores

METHODS: Mapping[str, Detector] = {
    "PostMax": detectors.PostMax(),
    "MSP": detectors.MSP(),
    "MaxLogit": detectors.MaxLogit(),
    "NNGuide": detectors.NNGuide(),
    "SCALE": detectors.SCALE(),
}
"""The five methods of the paper, with default parameters."""

N_TESTS = 5
_LARGE = 100_000  # training samples from which on NNGuide keeps one per cent of them


@dataclass(frozen=True, eq=False)
class Network:
    """Outputs of one network, read when needed, and scores of methods on them."""

    folder: Path
    title: str
    hard: str  # kind of unknowns the threshold is chosen with
    easy: str  # the other one, for Tables 3 and 4
    surrogates: tuple[str, ...]
    unknowns: tuple[str, ...]
    cache: Path
    _loaded: dict[str, Outputs] = field(default_factory=dict)
    _scored: dict[tuple[str, str], Scores] = field(default_factory=dict)

    def part(self, name: str) -> Outputs:
        """Return the outputs of a part."""
        if name not in self._loaded:
            self._loaded[name] = _load(self.folder, name)
        return self._loaded[name]

    def scores(self, title: str, method: Detector, part: str) -> Scores:
        """Return the scores of a method on a part; they are kept on disk."""
        key = (title, part)
        if key not in self._scored:
            path = self.cache / title / f"{part.replace('/', '-')}.npz"
            if not path.exists():
                self._score(title, method)
            self._scored[key] = Scores.load(path)
        return self._scored[key]

    def _score(self, title: str, method: Detector) -> None:
        """Fit a method once and score all parts."""
        train = self.part("train")
        if isinstance(method, detectors.NNGuide) and len(train) > _LARGE:
            method = detectors.NNGuide(bank=0.01)  # as its authors do on ImageNet
        with warnings.catch_warnings():
            # NNGuide warns of negative energies; the table shows what comes of them.
            warnings.simplefilter("ignore", UserWarning)
            fitted = method.fit(train)
        for part in self.parts:
            scores = fitted.score(self.part(part))
            scores.save(self.cache / title / f"{part.replace('/', '-')}.npz")

    @property
    def parts(self) -> list[str]:
        """Parts to score."""
        kinds = [f"surrogate/{kind}" for kind in self.surrogates]
        kinds += [f"unknown/{kind}" for kind in self.unknowns]
        return ["validation", "test", *kinds]

    def surrogate(self, kind: str) -> str:
        """Return the part with unknowns of a kind to choose a threshold on."""
        is_there = kind in self.surrogates
        return f"surrogate/{kind}" if is_there else f"unknown/{kind}"

    def splits(self) -> NDArray[np.bool_]:
        """Divide the known test samples into five splits, equal in every class."""
        return test_splits(self.part("test"), n=N_TESTS, unknowns="shared", rng=0)

    def methods(self, wanted: Mapping[str, Detector]) -> Iterator[tuple[str, Detector]]:
        """Yield the methods that can score this network's features."""
        for title, method in wanted.items():
            try:
                self.scores(title, method, "test")
            except ValueError:
                if not isinstance(method, detectors.SCALE):
                    raise
                continue  # needs features that are not negative
            yield title, method


def networks(settings: Settings) -> list[Network]:
    """Return the networks of ``--outputs``; without it, one trained on digits."""
    folder = settings.outputs
    if folder is None:
        folder = settings.out / "outputs"
        make_example(folder / "digits")
    found = sorted(path.parent for path in folder.glob("*/network.json"))
    if not found:
        msg = _check.must(
            "a folder with one folder per network, each with network.json",
            caller="reproduce",
            name="outputs",
            got=str(folder),
            remedy="docs/papers/postmax.md describes it",
        )
        raise FileNotFoundError(msg)
    return [_network(path, settings.out / "scores" / path.name) for path in found]


def _network(folder: Path, cache: Path) -> Network:
    path = folder / "network.json"
    try:
        about = json.loads(path.read_text("utf-8"))
        title, hard, easy = (str(about[k]) for k in ("title", "surrogate", "easy"))
    except (ValueError, KeyError, TypeError) as error:
        msg = (
            f"reproduce: {path} must be JSON with title, surrogate and easy, got "
            f"{error!r}"
        )
        raise ArtefactError(msg) from error
    one = Network(
        folder=folder,
        title=title,
        hard=hard,
        easy=easy,
        surrogates=_kinds(folder / "surrogate"),
        unknowns=_kinds(folder / "unknown"),
        cache=cache,
    )
    for name, kind in (("surrogate", hard), ("easy", easy)):
        have = sorted({*one.surrogates, *one.unknowns})
        _check.one_of("reproduce", f"{name} of {path}", kind, have)
    return one


def _kinds(folder: Path) -> tuple[str, ...]:
    names = {
        path.name.removesuffix(".npz")
        for path in folder.glob("*")
        if path.is_dir() or path.suffix == ".npz"
    }
    return tuple(sorted(names))


def _load(folder: Path, part: str) -> Outputs:
    path = folder / part
    if not path.exists():
        path = path.with_name(f"{path.name}.npz")
    outputs = Outputs.load(path)
    if "/" in part:  # unknown, whatever their labels
        outputs = outputs.as_unknown()
    return outputs


def make_example(folder: Path) -> None:
    """Train an MLP on five digits and write its outputs, with two kinds of unknowns."""
    path = folder / "network.json"
    if path.exists():
        return
    digits = datasets.load("digits")
    names = digits.classes
    kinds = {"fives and sixes": names[5:7], "sevens to nines": names[7:]}
    for i, (kind, classes) in enumerate(kinds.items()):
        protocol = protocols.Protocol(
            known=names[:5],
            unknown=classes,
            surrogate=tuple(c for k, cs in kinds.items() if k != kind for c in cs),
            source="digits",
            validation=0.3,
        )
        cut = datasets.cut(digits, protocol)
        parts = fit_model(MLPModel(kind="mlp", hidden=[64], epochs=60), cut, 0)
        test = parts["test"]
        is_unknown = np.asarray(test.labels) == UNKNOWN
        test.take(is_unknown).save(folder / "unknown" / kind)
        other = next(k for k in kinds if k != kind)
        parts["surrogate"].save(folder / "surrogate" / other)
        if i == 0:
            parts["train"].save(folder / "train")
            parts["validation"].save(folder / "validation")
            test.take(~is_unknown).save(folder / "test")
    about = {
        "title": "digits, MLP",
        "surrogate": "fives and sixes",
        "easy": "sevens to nines",
    }
    text = json.dumps(about)
    _io.write(path, lambda stream: stream.write(text.encode()))


def joined(*parts: Scores) -> Scores:
    """Join known and unknown scores, without groups."""
    return Scores.concat([_plain(part) for part in parts])


def _plain(scores: Scores) -> Scores:
    return Scores(
        labels=scores.labels,
        predicted=scores.predicted,
        known=scores.known,
        n_classes=scores.n_classes,
    )


def mean(values: Sequence[float]) -> float:
    """Return the mean as a plain number."""
    return float(np.mean(values))
