"""Open-set metrics in training, by the real trainers of Lightning and Hugging Face."""

import numpy as np
import pytest

from openset import Outputs, Scores, detectors, metrics
from openset.integrations._training_metrics import open_set_metrics, scorer

torch = pytest.importorskip("torch", reason="an optional framework")
pytestmark = [
    pytest.mark.usefixtures("import_torchvision"),
    pytest.mark.filterwarnings("ignore"),  # those of the trainers
]


def samples(n, *, seed, known=True):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    inputs = rng.normal(size=(n, 4)) + (3 * np.eye(3, 4)[labels] if known else 0)
    return torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels)


def expected(network, known, labels, unknown, detector="msp"):
    """Compute the metrics from all logits at once."""
    with torch.no_grad():
        logits = [network(one).numpy() for one in (known, unknown)]
    outputs = Outputs(
        logits=np.concatenate(logits),
        labels=np.concatenate([labels.numpy(), np.full(len(unknown), -1)]),
    )
    scores = detectors.make(detector).fit().score(outputs)
    assert isinstance(scores, Scores)
    return {
        name: getattr(metrics, name)(scores)
        for name in ("accuracy", "auroc", "openauc")
    }


def test_lightning_logs_the_metrics_of_every_validation(tmp_path):
    pl = pytest.importorskip("pytorch_lightning", reason="the extra lightning")
    from openset.integrations.lightning import OpenSetCallback  # noqa: PLC0415

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = torch.nn.Linear(4, 3)

        def forward(self, inputs):
            return self.network(inputs)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch, _):
            pass

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    def loader(*tensors):
        data = torch.utils.data.TensorDataset(*tensors)
        return torch.utils.data.DataLoader(data, batch_size=16)

    known, labels = samples(50, seed=1)
    unknown, _ = samples(40, seed=2, known=False)
    callback = OpenSetCallback(loader(unknown), detector="maxlogit")
    seen = []

    class Remember(pl.Callback):
        def on_validation_end(self, trainer, module):
            if not trainer.sanity_checking:
                values = expected(module, known, labels, unknown, "maxlogit")
                seen.append((dict(trainer.callback_metrics), values))

    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback, Remember()],
        default_root_dir=tmp_path,
    )
    trainer.fit(Module(), loader(*samples(80, seed=0)), loader(known, labels))
    assert len(seen) == 2
    for logged, values in seen:
        for name, value in values.items():
            assert float(logged[f"val_{name}"]) == pytest.approx(value, abs=1e-6)
    assert seen[0][1] != seen[1][1]
    bare = OpenSetCallback(loader(unknown), known=[known])
    trainer.callbacks[:] = [bare]
    with pytest.raises(ValueError, match=r"known must be batches \(inputs, labels\)"):
        trainer.validate(Module(), loader(known, labels), verbose=False)


def test_the_trainer_of_hugging_face_logs_and_returns_the_metrics(tmp_path):
    transformers = pytest.importorskip("transformers", reason="a neighbour")
    pytest.importorskip("accelerate", reason="its Trainer needs it")
    from openset.integrations.transformers import OpenSetCallback  # noqa: PLC0415

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = torch.nn.Linear(4, 3)

        def forward(self, inputs, labels=None):
            logits = self.network(inputs)
            if labels is None:
                return {"logits": logits}
            loss = torch.nn.functional.cross_entropy(logits, labels)
            return {"loss": loss, "logits": logits}

    def rows(inputs, labels):
        return [{"inputs": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]

    known, labels = samples(50, seed=1)
    unknown, _ = samples(40, seed=2, known=False)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        learning_rate=0.1,
    )
    model = Model()
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=rows(*samples(80, seed=0)),
        eval_dataset=rows(known, labels),
    )
    outside = rows(unknown, torch.full((40,), -1))  # labels that no loss takes
    trainer.add_callback(OpenSetCallback(trainer, unknown=outside))
    trainer.train()
    logged = [one for one in trainer.state.log_history if "eval_openauc" in one]
    assert [one["epoch"] for one in logged] == [1, 2]
    values = expected(model.network.eval(), known, labels, unknown)
    for name, value in values.items():
        assert logged[-1][f"eval_{name}"] == pytest.approx(value, abs=1e-6)
    assert trainer.evaluate()["eval_openauc"] == logged[-1]["eval_openauc"]
    trainer.eval_dataset = None
    with pytest.raises(ValueError, match="OpenSetCallback: known must be given"):
        OpenSetCallback(trainer, unknown=outside)


def test_a_detector_that_learns_is_refused():
    with pytest.raises(ValueError, match="a detector that uses logits only"):
        scorer("OpenSetCallback", "knn")


def test_labels_below_zero_are_unknown():
    logits = np.array([[4.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    fitted = scorer("f", "maxlogit")
    found = open_set_metrics(fitted, logits, [0, 1, -100], [[0.5, 0.0]])
    assert found == {"accuracy": 1.0, "auroc": 0.75, "openauc": 0.75}
