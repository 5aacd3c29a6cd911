"""Open-set metrics in training, by the real trainers of Lightning and Hugging Face."""

import numpy as np
import pytest

from openset import Outputs, detectors, metrics

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
        labels=np.append(np.maximum(labels.numpy(), -1), [-1] * len(unknown)),
    )
    scores = detectors.make(detector).fit().score(outputs)
    return {
        name: getattr(metrics, name)(scores)
        for name in ("accuracy", "auroc", "openauc")
    }


def test_lightning_logs_the_openauc_of_all_batches_not_their_mean(tmp_path):
    pl = pytest.importorskip("pytorch_lightning", reason="a neighbour")
    pytest.importorskip("torchmetrics", reason="an extra")
    from openset.integrations.torchmetrics import OpenAUC  # noqa: PLC0415

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.network, self.openauc = torch.nn.Linear(4, 3), OpenAUC()

        def validation_step(self, batch, _):
            inputs, labels = batch
            known, predicted = self.network(inputs).max(dim=1)
            self.openauc.update(known=known, predicted=predicted, labels=labels)
            self.log("val_openauc", self.openauc)

    known, labels = samples(50, seed=1)
    unknown, _ = samples(40, seed=2, known=False)
    data = torch.utils.data.TensorDataset(
        torch.cat([known, unknown]), torch.cat([labels, torch.full((40,), -1)])
    )
    quiet = dict.fromkeys(
        ("logger", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer = pl.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet)
    module = Module()
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    (logged,) = trainer.validate(module, loader, verbose=False)
    wanted = expected(module.network, known, labels, unknown, "maxlogit")["openauc"]
    assert logged["val_openauc"] == pytest.approx(wanted, abs=1e-6)


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
    labels[:3] = -100  # which the loss leaves out, as other trainers have it
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
