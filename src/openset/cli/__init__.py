"""The command line: thin commands over the library."""

import sys
from typing import Annotated

import typer
from rich.markup import escape

import openset
from openset._types import ArtefactError, MissingExtraError
from openset.cli import (
    bench,
    calibrate,
    check,
    compare,
    datasets,
    demo,
    detectors,
    doctor,
    evaluate,
    export,
    predict,
    protocols,
    report,
    score,
    serve,
    train,
    watch,
)
from openset.cli._tables import ERRORS

app = typer.Typer(
    name="openset",
    help="Open-set recognition: classifiers that also know when they do not know.",
    epilog="Start with: [bold]openset demo[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=demo.EPILOG)(demo.command)
app.command("evaluate", epilog=evaluate.EPILOG)(evaluate.command)
app.command("detectors", epilog=detectors.EPILOG)(detectors.command)
app.command("score", epilog=score.EPILOG)(score.command)
app.command("compare", epilog=compare.EPILOG)(compare.command)
app.add_typer(protocols.app, name="protocols")
app.command("datasets", epilog=datasets.EPILOG)(datasets.command)
app.command("train", epilog=train.EPILOG)(train.command)
app.command("check", epilog=check.EPILOG)(check.command)
app.command("report", epilog=report.EPILOG)(report.command)
app.command("calibrate", epilog=calibrate.EPILOG)(calibrate.command)
app.command("predict", epilog=predict.EPILOG)(predict.command)
app.command("export", epilog=export.EPILOG)(export.command)
app.command("serve", epilog=serve.EPILOG)(serve.command)
app.command("watch", epilog=watch.EPILOG)(watch.command)
app.command("doctor", epilog=doctor.EPILOG)(doctor.command)
app.command("bench", epilog=bench.EPILOG)(bench.command)


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer calls it with the flag
    if wanted:
        typer.echo(f"openset {openset.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which."),
    ] = False,
) -> None:
    """Hold the options that belong to no command."""


def main() -> None:
    """Run a command; what users can mend is one line, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ArtefactError, MissingExtraError) as error:
        ERRORS.print(
            f"[bold red]error:[/bold red] {escape(str(error))}",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)
