"""What every training method must keep to; one function for each check."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from openset import _plugins, metrics
from openset.datasets import Dataset, cut
from openset.protocols import Protocol
from openset.train import Trained, fit
from openset.train.methods import Method, WithNegatives, find, make
from openset.train.networks import MLP, Network, TwoNorms

N_CLASSES = 3


@dataclass(frozen=True, eq=False)
class _MethodCase:
    """A method under test."""

    kind: type[Method]
    options: Mapping[str, Any]
    images: bool

    @property
    def updates(self) -> list[str]:
        return [update for updates in self.kind.passes for update in updates]

    def inputs(
        self, n: int = 12, *, n_classes: int = N_CLASSES
    ) -> tuple[Tensor, Tensor]:
        """Return samples of classes that are easy to separate."""
        generator = torch.Generator().manual_seed(n)
        labels = torch.arange(n) % n_classes
        if self.images:
            noise = torch.rand(n, 3, 32, 32, generator=generator)
            return noise / 4 + labels[:, None, None, None] / 4, labels
        rows = torch.randn(n, 4, generator=generator) / 2
        rows[torch.arange(n), labels] += 3
        return rows, labels

    def loss(
        self,
        method: Method,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        update: str,
    ) -> tuple[Tensor, Tensor]:
        """Return loss and logits; a method that needs negatives gets some."""
        if isinstance(method, WithNegatives):
            turned = -inputs[: method.n_negatives(len(inputs))]
            return method.loss(network, inputs, labels, negatives=turned)
        return getattr(method, update)(network, inputs, labels)

    def network(self) -> Network:
        torch.manual_seed(0)
        n_outputs = N_CLASSES + self.kind.n_extra
        if not self.images:
            return MLP(n_outputs, example=self.inputs()[0], width=16)
        norm = TwoNorms if self.kind.two_norms else nn.BatchNorm2d
        layers = [
            nn.Sequential(nn.Conv2d(n_in, 8, 3, 2, 1), norm(8), nn.LeakyReLU(0.2))
            for n_in in (3, 8)
        ]
        pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
        return Network(nn.Sequential(*layers, pool), nn.Linear(32, n_outputs))

    def made(self) -> tuple[Network, Method]:
        network, n = self.network(), N_CLASSES
        return network, make(self.kind, n_classes=n, network=network, **self.options)


def require(holds, sentence):
    assert holds, sentence


def checks(kind, options=None, *, images=False):
    """Return all checks by name."""
    case = _MethodCase(find(kind, caller="checks"), options or {}, images)
    return {check.__name__.strip("_"): partial(check, case) for check in _CHECKS}


def _facts(case: _MethodCase) -> None:
    kind = case.kind
    require(find(kind.name) is kind, f"{kind.name!r} must be registered for this class")
    _plugins.need_importable(kind, caller="check_method")
    scores = ("maxlogit", "msp", "custom")
    require(kind.score in scores, f"score must be among {scores}, got {kind.score!r}")
    is_custom = kind.respond is not Method.respond
    rule = "a class with score = 'custom' must compute it in `respond`"
    require(kind.score != "custom" or is_custom, rule)
    is_logged = "loss" in case.updates
    require(is_logged, "passes must contain 'loss', whose accuracy is logged")


def _loss(case: _MethodCase) -> None:
    network, method = case.made()
    inputs, labels = case.inputs()
    for update in case.updates:
        loss, logits = case.loss(method, network, inputs, labels, update)
        _check_loss(loss, update)
        shape = (len(labels), N_CLASSES)
        is_right = logits.shape[0] == shape[0] and logits.shape[1] >= shape[1]
        require(is_right, f"logits must have shape {shape}, got {tuple(logits.shape)}")


def _check_loss(loss: Tensor, update: str) -> None:
    is_number = loss.shape == () and bool(torch.isfinite(loss))
    require(is_number, f"the loss of {update!r} must be one finite number")


def _unusual_batches(case: _MethodCase) -> None:
    network, method = case.made()
    inputs, labels = case.inputs(7)
    one_class, two_classes = torch.zeros_like(labels), labels.clamp(max=1)
    for batch in (labels, one_class, two_classes):  # all of odd size
        for update in case.updates:
            _check_loss(case.loss(method, network, inputs, batch, update)[0], update)


def _gradients(case: _MethodCase) -> None:
    network, method = case.made()
    inputs, labels = case.inputs()
    both = nn.ModuleList([network, method])
    reached: set[str] = set()
    for update in case.updates:
        both.zero_grad()
        case.loss(method, network, inputs, labels, update)[0].backward()
        for name, parameter in both.named_parameters():
            if parameter.grad is not None and bool((parameter.grad != 0).any()):
                reached.add(name)
    trained = {name for name, p in both.named_parameters() if p.requires_grad}
    left = sorted(trained - reached)
    require(not left, f"every parameter must get a gradient, got none for {left}")


def _response(case: _MethodCase) -> None:
    network, method = case.made()
    inputs, _ = case.inputs()
    network.eval()
    with torch.no_grad():
        features = network.backbone(inputs)
        logits, known = method.respond(network, features)
    n = len(inputs)
    shapes = tuple(logits.shape), tuple(known.shape)
    rule = f"respond must return shapes {(n, N_CLASSES)} and {(n,)}, got {shapes}"
    require(shapes == ((n, N_CLASSES), (n,)), rule)
    require(bool(torch.isfinite(known).all()), "every score must be finite")
    rules = {"msp": logits.softmax(dim=1).amax(dim=1), "maxlogit": logits.amax(dim=1)}
    if method.score in rules:
        is_same = torch.allclose(known, rules[method.score], rtol=1e-4)
        require(is_same, f"the score must be {method.score!r}, as the class says")
    linear = network.head(features)[:, :N_CLASSES]
    is_linear = torch.allclose(logits, linear, rtol=1e-4, atol=1e-6)
    rule = "has_linear_head must be False: the logits are not the last layer's"
    require(is_linear or not method.has_linear_head, rule)


def _half_precision(case: _MethodCase) -> None:
    network, method = case.made()
    inputs, labels = case.inputs()
    for update in case.updates:
        losses = []
        for enabled in (False, True):
            torch.manual_seed(1)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                losses.append(case.loss(method, network, inputs, labels, update)[0])
        full, half = losses
        rule = "the loss must be float32 in half precision: use full_precision(logits)"
        require(half.dtype == torch.float32, rule)
        is_near = torch.allclose(half, full, rtol=0.05, atol=0.05)
        require(is_near, f"half precision must be near {full:.4f}, got {half:.4f}")


def _compiles(case: _MethodCase) -> None:
    network, method = case.made()
    inputs, labels = case.inputs(4)
    for update in case.updates:
        torch._dynamo.reset()  # its public name

        def loss(inputs: Tensor, labels: Tensor, name: str = update) -> Tensor:
            return case.loss(method, network, inputs, labels, name)[0]

        found = []
        for function in (loss, torch.compile(loss, backend="eager", fullgraph=True)):
            torch.manual_seed(1)
            found.append(function(inputs, labels))
        torch.testing.assert_close(found[1], found[0])


def _training(case: _MethodCase) -> None:
    inputs, labels = case.inputs(96, n_classes=N_CLASSES + 1)
    if case.images:
        inputs = (255 * inputs).clamp(max=255).to(torch.uint8).permute(0, 2, 3, 1)
    data = Dataset(
        inputs=inputs.numpy(),
        labels=labels.numpy(),
        classes=("a", "b", "c", "d"),
        kind="image" if case.images else "table",
        name="example",
        parts={"train": np.arange(48), "test": np.arange(48, 96)},
    )
    problem = cut(data, Protocol(known=data.classes[:-1], unknown=data.classes[-1:]))
    if issubclass(case.kind, WithNegatives):
        # Unlike all classes: rows with the opposite sign, or inverted images.
        others = replace(data, inputs=-data.inputs, name="others", label_set="others")
        protocol = replace(
            problem.protocol, negative=data.classes, negative_source="others"
        )
        problem = cut(data, protocol, negative=others)
    with tempfile.TemporaryDirectory() as folder:
        trained = fit(
            method=case.kind,
            options=case.options,
            data=problem,
            network=case.network() if case.images else None,
            recipe="torchosr",
            epochs=12,
            batch=12,
            lr=0.1,
            momentum=0.9,
            accelerator="cpu",
            progress=False,
            out=Path(folder) / "run",
        )
        found = metrics.accuracy(trained.scores["published"])
        rule = f"accuracy must be above 0.9 after training, got {found:.3f}"
        require(found > 0.9, rule)
        loaded = Trained.load(Path(folder) / "run")
        network = case.network() if case.images else None
        again = loaded.apply(problem.test.inputs, network=network, progress=False)
        first, second = (np.asarray(o.logits) for o in (trained.outputs["test"], again))
        is_same = np.array_equal(first, second)
        require(is_same, "a saved and loaded run must give the same logits")


_CHECKS = (
    _facts,
    _loss,
    _unusual_batches,
    _gradients,
    _response,
    _half_precision,
    _compiles,
    _training,
)
