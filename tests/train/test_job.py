"""What is trained: jobs, and the plans that follow from them."""

from collections import Counter
from pathlib import Path

import pytest

from openset import datasets
from openset.protocols import Protocol
from openset.train import Execution, Job, fit_jobs


def test_jobs_on_the_same_files_read_them_once_to_tell_them_apart(
    tmp_path, monkeypatch
):
    image = pytest.importorskip("PIL.Image")
    for name in ("train/cat", "train/cow", "test/cat", "test/cow", "test/dog"):
        (tmp_path / name).mkdir(parents=True)
        for i in range(3):
            image.new("RGB", (32, 32), (i, 0, 0)).save(tmp_path / name / f"{i}.png")
    data = datasets.load(str(tmp_path))
    protocol = Protocol(known=("cat", "cow"), unknown=("dog",), source=data.name)
    read, read_bytes = Counter(), Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: (read.update([path]), read_bytes(path))[1]
    )
    about = {"data": data, "protocol": protocol, "recipe": "torchosr", "epochs": 1}
    jobs = [
        Job.of(method="softmax", network="mlp", validation=0, seed=seed, **about)
        for seed in range(3)
    ]
    fit_jobs(jobs, Execution(accelerator="cpu", progress=False))
    assert set(read.values()) == {1}
