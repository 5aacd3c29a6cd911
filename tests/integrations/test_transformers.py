"""Open-set metrics in training, by the real `Trainer` of Hugging Face."""

import numpy as np
import pytest

from openset import Outputs, detectors, evaluate

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


def expected(network, known, labels, unknown):
    """Compute the metrics from all logits at once."""
    with torch.no_grad():
        logits = network(torch.cat([known, unknown])).numpy()
    labels = np.append(np.maximum(labels.numpy(), -1), [-1] * len(unknown))
    scores = detectors.MSP().fit().score(Outputs(logits=logits, labels=labels))
    return evaluate(scores, metrics=["accuracy", "auroc", "openauc"])


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
