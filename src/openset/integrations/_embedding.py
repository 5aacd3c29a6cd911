"""Embedding models of Hugging Face, with a linear layer to classify."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _extras, _npz
from openset._types import UNKNOWN, ArtefactError
from openset.outputs import Outputs
from openset.train.networks.weight_files import read_weights

with _extras.importing("openset.integrations.networks", "torch"):
    import torch
    from torch import Tensor, nn

POOLINGS = ("mean", "cls")
_CALLER = "LinearHead"
_CHOICES = (1.0, 0.1, 0.01, 0.001)  # of C
_HELD_OUT = 5  # a fifth


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearHead:
    """A last layer for a network: ``logits = features @ weight.T + bias``.

    Parameters
    ----------
    weight, bias
        Shapes (C, d) and (C,).
    classes
        Names of the C classes.

    Examples
    --------
    >>> outputs = Outputs(features=[[0.0], [1.0], [8.0], [9.0]], labels=[0, 0, 1, 1])
    >>> head = LinearHead.fit(outputs, ["low", "high"])
    >>> head.applied(outputs).logits.argmax(axis=1)
    array([0, 0, 1, 1])
    """

    weight: NDArray[Any]
    bias: NDArray[Any]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        weight, bias = (np.asarray(one) for one in (self.weight, self.bias))
        shapes = f"shapes {weight.shape} and {bias.shape}"
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            rule = "of shapes (C, d) and (C,)"
            msg = _check.must(rule, caller=_CALLER, name="weight and bias", got=shapes)
            raise ValueError(msg)
        if self.classes and len(self.classes) != len(weight):
            rule, got = f"{len(weight)} names", f"{len(self.classes)}"
            raise ValueError(_check.must(rule, caller=_CALLER, name="classes", got=got))
        object.__setattr__(self, "weight", weight.astype(np.float32))
        object.__setattr__(self, "bias", bias.astype(np.float32))
        object.__setattr__(self, "classes", tuple(map(str, self.classes)))

    @classmethod
    def fit(cls, outputs: Outputs, classes: Sequence[str] = ()) -> Self:
        """Fit a logistic regression to features with labels; those of -1 are left out.

        Features are scaled to unit variance for it; the layer takes them as they are.
        Of four penalties, the one with the lowest log-loss on a held-out fifth of the
        samples is used, if each class has five samples or more.
        """
        # Imported here: it takes a moment, and few need it.
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        caller = f"{_CALLER}.fit"
        if outputs.features is None or outputs.labels is None:
            rule, got = "outputs with features and labels", repr(outputs)
            raise ValueError(_check.must(rule, caller=caller, name="outputs", got=got))
        is_known = outputs.labels != UNKNOWN
        labels = outputs.labels[is_known]
        found = np.unique(labels)
        n = len(classes) or int(labels.max(initial=-1)) + 1
        if n < 2 or found.size < n:
            msg = _check.must(
                "samples of two classes or more, and of every class",
                caller=caller,
                name="outputs",
                got=f"{found.size} of {n} classes",
            )
            raise ValueError(msg)
        rows = np.asarray(outputs.features)[is_known].astype(np.float64)
        middle, spread = rows.mean(axis=0), rows.std(axis=0)
        spread[spread == 0] = 1.0
        rows = (rows - middle) / spread
        model = LogisticRegression(C=_chosen(rows, labels), max_iter=1000)
        model.fit(rows, labels)
        weight, bias = model.coef_, model.intercept_
        if n == 2:  # one row, for the second class: half of it for each
            weight, bias = (np.concatenate([-one, one]) / 2 for one in (weight, bias))
        weight = weight / spread
        return cls(weight=weight, bias=bias - weight @ middle, classes=tuple(classes))

    def applied(self, outputs: Outputs) -> Outputs:
        """Return outputs of an embedding model with the logits of this layer."""
        features = np.asarray(outputs.features)
        return Outputs(
            logits=features @ self.weight.T + self.bias,
            features=features,
            labels=outputs.labels,
            groups=outputs.groups,
            ids=outputs.ids,
            classes=self.classes,
            weight=self.weight,
            bias=self.bias,
            invalid=outputs.invalid,
        )

    def check_width(self, n: int) -> None:
        """Raise unless it takes embeddings of `n` numbers."""
        if self.weight.shape[1] != n:
            rule, got = f"for embeddings of {n} numbers", self.weight.shape[1]
            msg = _check.must(
                rule, caller="networks.load", name="head", got=f"one for {got}"
            )
            raise ValueError(msg)

    def module(self) -> nn.Linear:
        """Return it as a layer of a network."""
        made = nn.Linear(self.weight.shape[1], len(self.bias))
        with torch.no_grad():
            made.weight.copy_(torch.from_numpy(self.weight))
            made.bias.copy_(torch.from_numpy(self.bias))
        return made

    def save(self, path: str | Path) -> Path:
        """Write a ``.npz`` with weight, bias and the names of the classes."""
        path = Path(path)
        _check.ending(f"{_CALLER}.save", path, [".npz"])
        names = np.array(list(self.classes), dtype=np.str_)
        arrays = {"weight": self.weight, "bias": self.bias, "classes": names}
        _npz.write(path, arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.npz`` (weight, bias, and perhaps classes), or weights by name.

        Of a ``.safetensors`` or ``.pth`` file the only matrix and the only vector are
        taken.
        """
        path, caller = Path(path), f"{_CALLER}.load"
        if path.suffix == ".npz":
            found = _npz.read(caller, path)
        else:
            state = read_weights(path, caller=caller, name="head")
            found = {n: one.detach().float().numpy() for n, one in state.items()}
            by_axes = {2: "weight", 1: "bias"}
            found = {by_axes.get(one.ndim, n): one for n, one in found.items()}
            if len(state) != 2:
                found = {}
        if "weight" not in found or "bias" not in found:
            msg = _check.must(
                "a file with a weight (C, d) and a bias (C,)",
                caller=caller,
                name="head",
                got=f"{path} with {', '.join(found) or 'other weights'}",
            )
            raise ArtefactError(msg)
        names = [str(one) for one in found.get("classes", ())]
        return cls(weight=found["weight"], bias=found["bias"], classes=tuple(names))


def _chosen(rows: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return C, which divides the penalty, by log-loss on samples that are held out."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  # as above
    from sklearn.metrics import log_loss  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    if np.bincount(labels).min() < _HELD_OUT:
        return 1.0
    fitted, held = train_test_split(
        np.arange(len(labels)), test_size=1 / _HELD_OUT, stratify=labels, random_state=0
    )

    def loss(c: float) -> float:
        model = LogisticRegression(C=c, max_iter=1000).fit(rows[fitted], labels[fitted])
        return float(log_loss(labels[held], model.predict_proba(rows[held])))

    return min(_CHOICES, key=loss)


class Embedded(nn.Module):
    """An embedding model with its pooling and a last layer."""

    def __init__(self, model: nn.Module, pooling: str, head: LinearHead | None) -> None:
        super().__init__()
        self.model, self.pooling = model, pooling
        config: Any = model.config
        n = int(config.hidden_size)
        if head is not None:
            head.check_width(n)
        # Without a head one output that nobody reads: its input is what is wanted.
        self.head = nn.Linear(n, 1) if head is None else head.module()

    def forward(self, **inputs: Any) -> Tensor:
        """Return the logits, from the output of the tokenizer or image processor."""
        found = self.model(**inputs).last_hidden_state
        return self.head(pooled(found, inputs.get("attention_mask"), self.pooling))


def pooled(states: Tensor, mask: Tensor | None, pooling: str) -> Tensor:
    """Return one embedding per sample.

    Parameters
    ----------
    states
        Shape (n, tokens, d), or (n, d, h, w) of a convolutional network.
    mask
        1 for tokens of the text, 0 for padding.
    pooling
        "mean" over the tokens, or "cls": the first one.

    Examples
    --------
    >>> states = torch.tensor([[[1.0], [3.0], [50.0]]])
    >>> pooled(states, torch.tensor([[1, 1, 0]]), "mean").item()
    2.0
    >>> pooled(states, None, "cls").item()
    1.0
    """
    if states.ndim == 4:
        return states.mean(dim=(2, 3))
    if pooling == "cls":
        return states[:, 0]
    if mask is None:
        return states.mean(dim=1)
    weights = mask.to(states.dtype)[:, :, None]
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)


def usual_pooling(folder: Path) -> str:
    """Return the pooling that a folder of sentence-transformers states; else mean."""
    try:
        stated = json.loads((folder / "1_Pooling/config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "mean"
    return "cls" if stated.get("pooling_mode_cls_token") else "mean"


def with_labels(outputs: Outputs, labels: ArrayLike | None) -> Outputs:
    """Return the features of outputs, with labels, and without logits."""
    return Outputs(
        features=outputs.features,
        labels=None if labels is None else np.asarray(labels),
        groups=outputs.groups,
        ids=outputs.ids,
        invalid=outputs.invalid,
    )
