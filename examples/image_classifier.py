"""
An image classifier
===================

Teach a trained PyTorch network to say "unknown": six handwritten digits are known,
four are not.

The images ship with scikit-learn, so nothing is downloaded. Replace the first two
code cells with your own data and network.
"""

# %%
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import openset as ops

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
labels = torch.tensor(np.where(digits < 6, digits, -1))  # 6, 7, 8 and 9 are unknown
part = torch.arange(len(labels)) % 3  # 0: train, 1: calibrate, 2: test

# %%
# A small network, trained on the known digits only.

torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
    nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 6),
)  # fmt: skip
optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
train = (part == 0) & (labels >= 0)
for _ in range(60):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(images[train]), labels[train]).backward()
    optimizer.step()

# %%
# **Extract.** `extract` runs the network once and keeps logits, features (the input of
# the last layer) and labels. The digits 6 and 7 stand in for unknown samples
# when the threshold is chosen. The digits 8 and 9 occur only in the test.


def outputs(rows):
    data = torch.utils.data.TensorDataset(images[rows], labels[rows])
    return ops.train.extract(network, torch.utils.data.DataLoader(data, batch_size=256))


digit = torch.tensor(digits)
fit_on = outputs(train)
known = outputs((part == 1) & (digit < 6))
stand_ins = outputs((part == 1) & ((digit == 6) | (digit == 7)))
test = outputs((part == 2) & (digit != 6) & (digit != 7))

# %%
# **Calibrate.** A detector scores how known a sample looks. The threshold is chosen on
# samples that neither the network nor the detector has seen.

fitted = ops.detectors.RMDS().fit(fit_on)
rejector = ops.Rejector.calibrate(fitted, known=known, surrogate=stand_ins)
done = rejector.operate(test)
print(f"known digits accepted with the right class: {done.ccr:.1%}")
print(f"unknown digits rejected: {done.urr:.1%}")
ops.report.histogram(
    rejector.score(test), bins=30, threshold=float(rejector.threshold.value)
)
