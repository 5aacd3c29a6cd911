"""
From image lists to a benchmark's table
=======================================

OpenOOD and others fix their benchmarks as lists: a path and a label per line. `extract`
runs a network over a list, and a named benchmark makes the table. The images of this
example are scikit-learn's digits in place of MNIST.
"""

# %%
from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

import openset as ops
from openset.bench import named

images, digits = load_digits(return_X_y=True)
images_folder = Path("runs/images")
images_folder.mkdir(parents=True, exist_ok=True)
lists = {"train": [], "known": [], "near/digits": []}
for i, (pixels, digit) in enumerate(zip(images, digits, strict=True)):
    name = f"{i}.png"
    Image.fromarray((pixels.reshape(8, 8) * 15).astype("uint8")).save(
        images_folder / name
    )
    part = "near/digits" if digit > 5 else "train" if i % 2 else "known"
    lists[part].append(f"{name} {digit if digit < 6 else -1}\n")

# %%
# A network of your own. Any of timm, Hugging Face or ONNX is opened by its name.

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 6))
x = torch.tensor(images / 16, dtype=torch.float32).repeat(1, 3)
y = torch.tensor(digits)
train = (torch.arange(len(y)) % 2 == 1) & (y < 6)
optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
for _ in range(150):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(x[train]), y[train]).backward()
    optimizer.step()

# %%
# One file of outputs per list, in the folders that `openset bench NAME` asks for.

loaded = ops.extract.load(network, side=8)
for part, lines in lists.items():
    file = Path("runs/list.txt")
    file.write_text("".join(lines), "utf-8")
    target = Path("runs/outputs") / f"{part}.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    ops.extract.run(loaded, images_folder, image_list=file).save(target)

# %%
# Two far data sets of the benchmark are not there: their columns are left out.

table = named.evaluate(named.load("mnist-small"), "runs/outputs", partial=True)
for detector, row in table.values("auroc").items():
    print(f"{detector:9} AUROC {row['near']:.3f}")
load = ops.Outputs.load
known, near = load("runs/outputs/known.npz"), load("runs/outputs/near/digits.npz")
fitted = ops.detectors.RMDS().fit(load("runs/outputs/train.npz"))
ops.report.histogram(fitted.score(ops.Outputs.concat([known, near])))
