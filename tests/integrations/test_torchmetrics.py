"""Open-set metrics as torchmetrics."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from tests.integrations.two_processes import worker
from tests.killing import forking
from tests.vision import declare_operators

from openset import Scores, metrics

declare_operators()  # torchmetrics imports torchvision

from openset.integrations.torchmetrics import OSA, OSCR, OpenAUC  # noqa: E402

N = 101


def samples(seed=0, dtype=torch.float32):
    """Return distance-like scores: far outside [0, 1], with ties."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 4, N)
    predicted = np.where(rng.random(N) < 0.7, np.maximum(labels, 0), 2)
    known = np.round(40 + 10 * (labels >= 0) + 8 * rng.normal(size=N))
    return (
        torch.tensor(known, dtype=dtype),
        torch.tensor(predicted),
        torch.tensor(labels),
    )


def as_scores(known, predicted, labels):
    return Scores(
        labels=labels.numpy(), predicted=predicted.numpy(), known=known.numpy()
    )


def expected(scores):
    curve = metrics.oscr_curve(scores)
    return {
        "OpenAUC": metrics.openauc(scores),
        "strict": metrics.openauc(scores, ties="strict"),
        "OSA": metrics.osa(scores, 45.0),
        "weighed": metrics.osa(scores, 45.0, alpha=0.3),
        "OSCR": np.stack([curve.fpr, curve.ccr, curve.thresholds]),
    }


def everything():
    return {
        "OpenAUC": OpenAUC(),
        "strict": OpenAUC(ties="strict"),
        "OSA": OSA(45.0),
        "weighed": OSA(45.0, alpha=0.3),
        "OSCR": OSCR(),
    }


def values(metric):
    found = metric.compute()
    if isinstance(found, tuple):
        return np.stack([part.numpy() for part in found])
    return found.item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1, 7, N])
def test_batches_give_exactly_what_the_functions_give(size, dtype):
    parts = samples(dtype=dtype)
    wanted = expected(as_scores(*parts))
    for name, metric in everything().items():
        for start in range(0, N, size):
            metric.update(*(part[start : start + size] for part in parts))
        assert_array_equal(values(metric), wanted[name])


def test_forward_gives_the_batch_and_keeps_the_whole():
    parts, other = samples(0), samples(1)
    metric = OpenAUC()
    assert metric(*parts).item() == metrics.openauc(as_scores(*parts))
    assert metric(*other).item() == metrics.openauc(as_scores(*other))
    both = [torch.cat(pair) for pair in zip(parts, other, strict=True)]
    assert metric.compute().item() == metrics.openauc(as_scores(*both))
    metric.reset()
    assert metric(*parts).item() == metrics.openauc(as_scores(*parts))


def test_a_sample_seen_twice_counts_once_when_ids_tell():
    known, predicted, labels = samples()
    metric = OSA(45.0)
    ids = torch.arange(N)
    for rows in (slice(0, 60), slice(40, N)):
        metric.update(known[rows], predicted[rows], labels[rows], ids[rows])
    assert metric.compute().item() == metrics.osa(
        as_scores(known, predicted, labels), 45.0
    )
    found = metric.scores()
    assert (found.ids.dtype.kind, found.ids.tolist()) == ("i", list(range(N)))


def test_two_processes_give_exactly_what_one_does(tmp_path):
    splits = [(70, 31), (N, 0)]  # uneven, and one without any sample
    with ProcessPoolExecutor(2, mp_context=forking()) as pool:
        meeting = str(tmp_path / "meeting")
        results = pool.map(worker, (0, 1), [meeting] * 2, [splits] * 2)
    wanted = expected(as_scores(*samples()))
    for of_one in results:
        for found in of_one:
            for name, value in wanted.items():
                assert_array_equal(found[name], value)


@pytest.mark.filterwarnings("ignore")  # those of Lightning
def test_lightning_logs_the_openauc_of_all_batches_not_their_mean(tmp_path):
    pl = pytest.importorskip("pytorch_lightning", reason="a neighbour")

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.openauc = OpenAUC()

        def validation_step(self, batch, _):
            self.openauc.update(*batch)
            self.log("openauc", self.openauc)

    silent = ("logger", "enable_progress_bar", "enable_model_summary")
    quiet = dict.fromkeys(silent, False)
    trainer = pl.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet)
    data = torch.utils.data.TensorDataset(*samples())
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    (logged,) = trainer.validate(Module(), loader, verbose=False)
    wanted = metrics.openauc(as_scores(*samples()))
    assert logged["openauc"] == pytest.approx(wanted, abs=1e-6)


NO_NUMBERS = "predicted, labels and ids must be integers below"
REFUSED = {
    "floats": ({"labels": torch.full((N,), 0.5)}, NO_NUMBERS),
    "rounded": ({"ids": torch.arange(N) + (1 << 60)}, NO_NUMBERS),
    "short": ({"labels": torch.zeros(3).long()}, "equal size"),  # PyTorch's words
    "NaN": ({"known": torch.full((N,), torch.nan)}, "NaN"),
    "alone": ({"labels": torch.zeros(N).long()}, "without unknown samples"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_batches_are_named(name):
    changed, words = REFUSED[name]
    batch = dict(zip(("known", "predicted", "labels"), samples(), strict=True))
    metric = OpenAUC()
    with pytest.raises((ValueError, TypeError, RuntimeError), match=words):  # noqa: PT012
        metric.update(**batch | changed)
        metric.compute()


def test_bad_options_and_missing_ids_are_named():
    with pytest.raises(ValueError, match="ties must be one of"):
        OpenAUC(ties="coin")
    with pytest.raises(ValueError, match="alpha must be a number in"):
        OSA(0.0, alpha=2)
    metric = OpenAUC()
    metric.update(*samples(), torch.arange(N))
    metric.update(*samples())
    with pytest.raises(ValueError, match="ids must be given for all batches"):
        metric.compute()
