"""What cannot be imported without a GPU's libraries is not searched for doctests."""

from importlib.util import find_spec

collect_ignore = []
if find_spec("triton") is None:
    collect_ignore.append("src/openset/train/networks/_norm_kernels.py")
