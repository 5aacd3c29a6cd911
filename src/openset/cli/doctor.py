"""`openset doctor`."""

from typing import Any

from rich.markup import escape
from rich.table import Table

from openset.cli import _installation
from openset.cli._console import OUT, Json, print_json
from openset.cli._lists import few, plain_table

EPILOG = """[bold]Examples[/bold]

openset doctor

openset doctor --json > doctor.json   # for a bug report"""


def command(
    as_json: Json = False,
) -> None:
    """Show installed packages, devices, and the folders of data sets.

    Missing packages are not errors: the exit code is 0.
    """
    found = _installation.examine()
    if as_json:
        print_json(found)
        return
    OUT.say(
        f"openset {found['openset']}, Python {found['python']}, {found['platform']}"
    )
    OUT.print(_packages(found["packages"]))
    OUT.print(_extras(found["extras"], found["broken"]))
    OUT.print(_networks(found["networks"]))
    OUT.print(_machine(found))


def _packages(versions: dict[str, str | None]) -> Table:
    table = plain_table("Packages")
    for name in versions:
        table.add_column(name, no_wrap=True)
    table.add_row(*(version or "[red]missing[/red]" for version in versions.values()))
    return table


def _extras(extras: dict[str, dict[str, str | None]], broken: dict[str, str]) -> Table:
    table = plain_table('Extras: pip install "openset\\[NAME]"')
    table.add_column("name", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("gives")
    table.add_column("packages", style="dim")
    gives = {extra.name: extra.gives for extra in _installation.EXTRAS}
    for name, versions in extras.items():
        missing = [package for package, version in versions.items() if version is None]
        is_there = not missing and name not in broken
        mark = "[green]yes[/green]" if is_there else "[yellow]no[/yellow]"
        have = [f"{package} {version or '—'}" for package, version in versions.items()]
        if name in broken:
            have.append(f"but {broken[name]} cannot be imported (see below)")
        table.add_row(name, mark, gives[name], ", ".join(have))
    return table


def _networks(networks: dict[str, dict[str, str | None]]) -> Table:
    table = plain_table("Packages of networks: pip install NAME")
    table.add_column("name", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("version", no_wrap=True)
    table.add_column("")
    for name, found in networks.items():
        version, why = found["version"], found["why"]
        mark = "[green]yes[/green]" if why is None else "[yellow]no[/yellow]"
        text = "" if why is None else escape(why)
        if version is not None and why is not None:
            text = f"installed, but cannot be imported: {text}"
        table.add_row(name, mark, version or "—", text)
    return table


def _machine(found: dict[str, Any]) -> Table:
    table = plain_table("Machine and folders")
    table.show_header = False
    table.add_column("", no_wrap=True)
    table.add_column("")
    memory = found["memory_bytes"]
    size = "" if memory is None else f", {_size(memory)} memory"
    table.add_row("CPU", f"{found['cores']} cores{size}")
    pools = [
        f"{' '.join(filter(None, (pool['library'], pool['version'])))}: "
        f"{pool['threads']} threads"
        for pool in found["blas"]
    ]
    table.add_row("threads", "; ".join(dict.fromkeys(pools)) or "no BLAS found")
    cuda = [f"{one['name']}, {_size(one['memory_bytes'])}" for one in _devices(found)]
    table.add_row("CUDA", "; ".join(cuda) or f"none: {found['cuda']['why']}")
    data = found["data"]
    table.add_row("data", f"{escape(data['path'])} ({_state(data)})")
    here = few(data["here"], 8) or "none; see openset datasets"
    table.add_row(
        "", f"{len(data['here'])} of {data['known']} data sets present: {here}"
    )
    temporary = found["temporary"]
    table.add_row("temporary", f"{escape(temporary['path'])} ({_state(temporary)})")
    return table


def _devices(found: dict[str, Any]) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = found["cuda"]["devices"]
    return devices


def _state(folder: dict[str, Any]) -> str:
    exists = "exists" if folder["exists"] else "does not exist yet"
    return f"{exists}, {'writable' if folder['writable'] else 'not writable'}"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.1f} GiB"
