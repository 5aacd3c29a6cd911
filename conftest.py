"""What cannot be imported everywhere is not searched for doctests."""

from importlib.util import find_spec

# Imports torchvision, which need not fit torch: its tests run its examples.
collect_ignore = ["src/openset/integrations/torchmetrics.py"]
if find_spec("triton") is None:  # a GPU's libraries
    collect_ignore.append("src/openset/train/networks/_norm_kernels.py")
