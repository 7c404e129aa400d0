"""The `miton` command: wiring only. What each command does lives in `commands/`.

Exit codes: 0 done, 1 it failed (the reason is on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from miton_engine.errors import EngineError
from miton_service.errors import ServiceError
from miton_service.settings import load_settings, parse_size

app = typer.Typer(
    name="miton",
    help="A local context service for developers: the whole repository in the model's memory.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
models = typer.Typer(help="List, fetch and verify models.", no_args_is_help=True)
app.add_typer(models, name="models")
notes = Console(stderr=True)
out = Console()

Url = Annotated[str | None, typer.Option("--url", envvar="MITON_URL", help="Address of the running service.")]
Token = Annotated[str | None, typer.Option("--token", help="Token of the service, if it needs one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def examples(*lines: str) -> str:
    """The examples under a command's help."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}; give {error}.") from None


@app.command(
    epilog=examples("miton serve --workspace .", "miton serve -w ~/code/app -w ~/code/lib --port 9000")
)
def serve(
    workspace: Annotated[
        list[Path] | None, typer.Option("--workspace", "-w", help="Repository to hold; may be repeated.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Short name, path of a GGUF file or directory, or org/name."),
    ] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", help="Port; 0 takes a free one.")] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on; beyond loopback a token is required.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option("--token", help="Token that clients must send (else one is made and stored)."),
    ] = None,
    require_token: Annotated[
        bool | None, typer.Option("--require-token", help="Ask for a token on loopback, too.")
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Chunk KV kept in memory, e.g. 2GB.")] = None,
    disk: Annotated[str | None, typer.Option("--disk", help="Chunk KV kept on disk, e.g. 20GB.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads; 0 is one per core.")] = None,
    context_tokens: Annotated[
        int | None, typer.Option("--context-tokens", help="Budget of attached context per request.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", help="debug, info, warning or error.")
    ] = None,
) -> None:
    """Start the service: fetch the model if needed, open the workspaces, answer on 127.0.0.1:8377."""
    from miton_service.commands.serve import serve as run

    settings = load_settings(
        {
            "workspaces": tuple(root.expanduser().resolve() for root in workspace) if workspace else None,
            "model": model, "port": port, "host": host, "token": token, "require_token": require_token,
            "memory_bytes": _size(memory), "disk_bytes": _size(disk), "threads": threads,
            "context_tokens": context_tokens, "log_level": log_level,
        }
    )  # fmt: skip
    run(settings, notes)


@app.command(epilog=examples("miton index .", "miton index ~/code/app --no-wait", "miton index . --json"))
def index(
    directory: Annotated[Path, typer.Argument(help="Root of the repository.")] = Path(),
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the indexing to its end.")] = True,
    json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Give the running service a repository to hold, and follow its indexing."""
    from miton_service.commands import requesting

    requesting.index(_client(url, token), directory, wait=wait, as_json=json, notes=notes)


@app.command(epilog=examples("miton complete src/app.py:12:5", "miton complete src/app.py:12 --context"))
def complete(
    place: Annotated[
        str, typer.Argument(metavar="FILE:LINE:COL", help="Counted from 1; without COL the line's end.")
    ],
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Longest completion.")] = 128,
    context: Annotated[bool, typer.Option("--context", help="Tell what was attached, and why.")] = False,
    json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Complete the code at a place in a file."""
    from miton_service.commands import requesting
    from miton_service.commands.places import parse_place

    requesting.complete(
        _client(url, token),
        parse_place(place),
        max_tokens=max_tokens,
        show_context=context,
        as_json=json,
        notes=notes,
    )


@app.command(
    epilog=examples('miton ask "Where are retries configured?"', 'miton ask "..." --workspace ~/code/app')
)
def ask(
    question: Annotated[str, typer.Argument(help="A question about the repository.")],
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-w", help="Repository; default: the one you are in.")
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Longest answer.")] = 512,
    json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Ask about the repository; the answer ends with the places it was based on."""
    from miton_service.commands import requesting

    requesting.ask(
        _client(url, token), question, workspace=workspace, max_tokens=max_tokens, as_json=json, notes=notes
    )


@app.command(epilog=examples("miton status", "miton status --json"))
def status(json: AsJson = False, url: Url = None, token: Token = None) -> None:
    """Show the running service: model, limits, workspaces, last requests."""
    from miton_service.commands import requesting

    requesting.status(_client(url, token), as_json=json, console=out)


@models.command("list", epilog=examples("miton models list --json"))
def models_list(json: AsJson = False) -> None:
    """List the models that can be served by name, and which are here already."""
    from miton_service.commands import model_files

    model_files.list_models(load_settings({}), as_json=json, console=out)


@models.command("pull", epilog=examples("miton models pull", "miton models pull smollm2-135m"))
def models_pull(
    model: Annotated[str | None, typer.Argument(help="Short name; default: the default model.")] = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Say nothing when it is here already.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Fetch a model and verify it; a broken download goes on where it stopped."""
    from miton_service.commands import model_files

    model_files.pull(load_settings({"model": model}), quiet_if_present=if_missing, as_json=json, notes=notes)


@models.command("verify", epilog=examples("miton models verify qwen2.5-coder-0.5b"))
def models_verify(
    model: Annotated[str | None, typer.Argument(help="Short name; default: the default model.")] = None,
    json: AsJson = False,
) -> None:
    """Compare a model's file with its SHA-256."""
    from miton_service.commands import model_files

    model_files.verify(load_settings({"model": model}), as_json=json, notes=notes)


@app.command(epilog=examples("miton doctor", "miton doctor --json"))
def doctor(
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model to check.")] = None,
    json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Check machine, libraries and model; say the fix for what is wrong."""
    from miton_service.commands import diagnosis

    raise typer.Exit(
        diagnosis.doctor(load_settings({"model": model}), _client(url, token), as_json=json, console=out)
    )


@app.command(
    epilog=examples("miton bench session --quick", "miton bench speed --json speed.json"),
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Run a benchmark with its peers beside it; the arguments are those of ./scripts/bench."""
    from miton_service.bench.__main__ import main as run

    raise typer.Exit(run(context.args) or 0)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib import metadata

        print(metadata.version("miton"))
        raise typer.Exit


def _client(url: str | None, token: str | None) -> Any:
    from miton_service.commands.client import connect

    return connect(load_settings({}), url, token)


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except (ServiceError, EngineError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _fail(message: str) -> None:
    notes.print(f"[red]error[/red] {message}", highlight=False, soft_wrap=True)
    sys.exit(1)
