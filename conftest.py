"""What must be known before any test is imported."""

import os
from importlib.util import find_spec

# They import torchvision, which need not fit torch: their tests run their examples.
names = ("lightning", "torchmetrics", "transformers")
collect_ignore = [f"src/openset/integrations/{name}.py" for name in names]
if find_spec("triton") is None:  # a GPU's libraries
    collect_ignore.append("src/openset/detectors/_row_kernels.py")
    collect_ignore.append("src/openset/train/networks/_norm_kernels.py")

# Each worker of pytest-xdist gets its share of the cores: threads that wait for a core
# in small matrix products double the time. Read when NumPy and torch are imported.
n_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if n_workers > 1:
    share = max(1, (os.cpu_count() or 1) // n_workers)
    os.environ.setdefault("OMP_NUM_THREADS", str(share))
