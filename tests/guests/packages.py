"""Installing a small package without a network or a build tool."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def install(folder, *, name, version, modules, entry_points):
    """Write a wheel of some modules and have pip install it to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    about = f"{name.replace('-', '_')}-{version}"
    groups = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in offered.items())
        for group, offered in entry_points.items()
    ]
    info = f"{about}.dist-info"
    files = {
        **modules,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any",
        f"{info}/entry_points.txt": "\n\n".join(groups),
    }
    record = [
        f"{path},{_digest(text)},{len(text.encode())}" for path, text in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"])
    wheel = folder / f"{about}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    site = folder / "site"
    words = ["install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(wheel)], check=True)  # noqa: S603
    return site


def _digest(text):
    found = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(found).decode().rstrip("=")


def environment(*folders):
    """Return an environment in which modules of these folders can be imported."""
    path = os.pathsep.join(map(str, (*folders, REPOSITORY / "src")))
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "120"}


def python(code, *words, cwd, env, fails=False):
    """Run Python in a process of its own; return what it printed."""
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-c", code, *map(str, words)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def openset(*words, **options):
    """Run the command line in a process of its own; return what it printed."""
    return python("from openset.cli import main; main()", *words, **options)
