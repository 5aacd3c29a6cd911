"""`LinearHead`: a last layer, fitted to features of a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check, _npz
from openset._types import UNKNOWN, ArtefactError
from openset.outputs import Outputs

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
        vars(self).update(
            weight=np.asarray(self.weight, np.float32),
            bias=np.asarray(self.bias, np.float32),
            classes=tuple(map(str, self.classes)),
        )

    def __repr__(self) -> str:
        n, width = self.weight.shape
        return f"LinearHead({width} features to {n} classes)"

    @classmethod
    def fit(cls, outputs: Outputs, classes: Sequence[str] = ()) -> Self:
        """Fit a logistic regression to features with labels; those of -1 are left out.

        Features are scaled to unit variance for it; the layer takes them as they are.
        Of four penalties, the one with the lowest log-loss on a held-out fifth of the
        samples is used, if each class has five samples or more.
        """
        # Imported here: it takes a moment, and few need it.
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
        from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit  # noqa: PLC0415

        outputs = outputs.take(~outputs.is_invalid)
        if outputs.features is None or outputs.labels is None:
            rule = "outputs with features and labels"
            remedy = "Give samples of known classes, such as a folder of images each"
            _check.fail("LinearHead.fit", "outputs", rule, repr(outputs), remedy)
        is_known = outputs.labels != UNKNOWN
        labels = outputs.labels[is_known]
        n, n_found = len(classes) or labels.max(initial=-1) + 1, np.unique(labels).size
        if n < 2 or n_found < n:
            rule = "samples of two classes or more, and of every class"
            got = f"{n_found} of {n} classes"
            _check.fail("LinearHead.fit", "outputs", rule, got)
        rows = np.asarray(outputs.features)[is_known].astype(np.float64)
        middle, spread = rows.mean(axis=0), rows.std(axis=0)
        spread[spread == 0] = 1.0
        rows = (rows - middle) / spread
        model = LogisticRegression(max_iter=1000)
        if np.bincount(labels).min() >= _HELD_OUT:
            fifth = StratifiedShuffleSplit(1, test_size=1 / _HELD_OUT, random_state=0)
            model = GridSearchCV(
                model, {"C": _CHOICES}, scoring="neg_log_loss", cv=fifth
            )
        model = getattr(model.fit(rows, labels), "best_estimator_", model)
        weight, bias = model.coef_, model.intercept_
        if n == 2:  # one row, for the second class: half of it for each
            weight, bias = (np.concatenate([-one, one]) / 2 for one in (weight, bias))
        weight = weight / spread
        return cls(weight=weight, bias=bias - weight @ middle, classes=tuple(classes))

    def applied(self, outputs: Outputs) -> Outputs:
        """Return outputs with the logits of this layer."""
        features = np.asarray(outputs.features)
        about = {n: getattr(outputs, n) for n in ("labels", "groups", "ids", "invalid")}
        made = {"logits": features @ self.weight.T + self.bias, "features": features}
        head = {n: getattr(self, n) for n in ("weight", "bias", "classes")}
        return Outputs(**made, **head, **about)

    def module(self) -> Any:
        """Return it as a layer of torch."""
        import torch  # noqa: PLC0415  # not needed otherwise

        made = torch.nn.Linear(self.weight.shape[1], len(self.bias))
        state = {"weight": torch.tensor(self.weight), "bias": torch.tensor(self.bias)}
        made.load_state_dict(state)
        return made

    def save(self, path: str | Path) -> Path:
        """Write a ``.npz`` with weight, bias and the names of the classes."""
        _check.ending(f"{_CALLER}.save", Path(path), [".npz"])
        names = np.array(list(self.classes), dtype=np.str_)
        arrays = {"weight": self.weight, "bias": self.bias, "classes": names}
        _npz.save(Path(path), arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.npz`` with weight, bias, and perhaps classes."""
        found, _ = _npz.load(f"{_CALLER}.load", Path(path))
        if not {"weight", "bias"} <= found.keys():
            rule, got = "a file with weight and bias", f"{path} with {', '.join(found)}"
            _check.fail(f"{_CALLER}.load", "head", rule, got, error=ArtefactError)
        names = tuple(found.get("classes", ()))
        return cls(weight=found["weight"], bias=found["bias"], classes=names)


def read_tensors(path: Path) -> dict[str, Any]:
    """Read tensors by name from ``.safetensors`` or ``.pth``; nothing is unpickled."""
    import torch  # noqa: PLC0415  # not for a .npz
    from safetensors.torch import load_file  # noqa: PLC0415

    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
        for name in ("state_dict", "model", "net"):  # where checkpoints keep them
            state = state.get(name, state)
        return {name.removeprefix("module."): one for name, one in state.items()}
    except Exception as error:  # several libraries, each with classes of its own
        msg = f"{path} is damaged or no file of tensors by name ({error})"
        raise ArtefactError(msg) from error
