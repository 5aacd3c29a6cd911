"""What must be known before any test is imported."""

import os
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb

import pytest

HERE = Path(__file__).resolve().parent

# They import torchvision, which need not fit torch: their tests run their examples.
names = ("torchmetrics", "transformers")
collect_ignore = [f"src/openset/integrations/{name}.py" for name in names]
if find_spec("triton") is None:  # a GPU's libraries
    collect_ignore.append("src/openset/detectors/_row_kernels.py")
    collect_ignore.append("src/openset/train/networks/norm_kernels.py")

# What a terminal or a service sets for those who look at it: it would colour or wrap
# what tests read, here and in the processes they start. GitHub sets one of them.
for name in (
    *("COLUMNS", "LINES", "FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE"),
    *("TTY_COMPATIBLE", "TTY_INTERACTIVE", "GITHUB_ACTIONS", "OPENSET_OFFLINE"),
):
    os.environ.pop(name, None)

# Each worker of pytest-xdist gets its share of the cores: threads that wait for a core
# in small matrix products double the time. Read when NumPy and torch are imported.
n_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if n_workers > 1:
    share = max(1, (os.cpu_count() or 1) // n_workers)
    os.environ.setdefault("OMP_NUM_THREADS", str(share))

# What extras bring, by the names that are imported. Without one of them, what needs it
# skips and says so; the rest runs.
OPTIONAL = (
    "anyio", "array_api_strict", "datasets", "faiss", "fastapi", "fsspec", "httpx",
    "huggingface_hub", "jinja2", "lightning_fabric", "matplotlib", "mlflow",
    "multipart", "onnx", "onnxruntime", "onnxscript", "pandas", "PIL",
    "prometheus_client", "pyarrow", "pydantic", "pytorch_lightning", "pytorch_ood",
    "ray", "safetensors", "schemathesis", "selenium", "starlette",
    "timm", "torch", "torchmetrics", "torchvision", "transformers", "tritonclient",
    "uvicorn", "yaml",
)  # fmt: skip
ABSENT = frozenset(name for name in OPTIONAL if find_spec(name) is None)


@pytest.fixture(scope="session", autouse=True)
def as_users_type(doctest_namespace):
    """Run examples as in a user's session: their classes are not openset's own."""
    doctest_namespace["__name__"] = "__main__"


def absent(error):
    """Return the optional package whose absence is the cause of an error, or None."""
    error = getattr(error, "exc_info", (None, error))[1]  # of a doctest
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            name = error.name.partition(".")[0]
            return name if name in ABSENT else None
        error = error.__cause__ or error.__context__
    return None


def pytest_sessionstart():
    """Forget what else the terminal can do, once pytest has chosen its own colours."""
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        os.environ.pop(name, None)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a module that imports an optional package which is absent."""
    report = yield
    if report.failed and (name := absent(report.call.excinfo.value)):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {name}")
    return report


def skipping():
    """Let a test or its fixtures run; skip if an optional package is absent.

    Our own code must say which extra brings it: an import that does not is a failure.
    """
    try:
        return (yield)
    except Exception as error:
        name = absent(error)
        files = [Path(f.f_code.co_filename) for f, _ in walk_tb(error.__traceback__)]
        *_, last = [HERE, *(one for one in files if one.is_relative_to(HERE))]
        is_ours = last.is_relative_to(HERE / "src")
        if name and not (is_ours and isinstance(error, ModuleNotFoundError)):
            pytest.skip(f"needs {name}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Skip a test whose fixtures need what is absent."""
    return (yield from skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that needs what is absent."""
    return (yield from skipping())
