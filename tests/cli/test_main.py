"""The root command: help that teaches, light imports, and no traceback for the user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from pi_workflows.cli.main import root
from pi_workflows.client.scripted import Answer
from pi_workflows.protocol.version import PACKAGE_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_workflows.protocol.canonical import JsonValue
    from pi_workflows.protocol.paths import StatePaths

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke, Serve

QUICK = """
import sys
from click.testing import CliRunner
from pi_workflows.cli.main import root
result = CliRunner().invoke(root, sys.argv[1:])
heavy = {'trio', 'pydantic', 'rich', 'asyncio', 'psutil', 'apsw', 'typing_extensions'}
print(sorted(heavy & sys.modules.keys()), result.exit_code, file=sys.stderr)
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the tree with its full name."""

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for child_name in command.list_commands(context):
                child = command.get_command(context, child_name)
                assert child is not None
                yield from below(f"{name} {child_name}", child)

    yield from below("pi-workflows", root)


TREE = dict(commands())


def test_the_tree_has_every_command() -> None:
    assert set(TREE) == {
        "pi-workflows",
        *(f"pi-workflows {name}" for name in ("run", "list", "show", "watch", "cancel")),
        *(f"pi-workflows {name}" for name in ("pause", "resume", "restart")),
        "pi-workflows server",
        *(f"pi-workflows server {name}" for name in ("run", "start", "status", "stop")),
        "pi-workflows settings",
        *(f"pi-workflows settings {name}" for name in ("show", "change", "history")),
        "pi-workflows follow-up",
        *(f"pi-workflows follow-up {name}" for name in ("add", "list", "remove")),
        "pi-workflows effects",
        "pi-workflows effects list",
        "pi-workflows effects resolve",
        "pi-workflows chaos",
        *(f"pi-workflows chaos {name}" for name in ("list", "run", "replay", "shrink", "explain")),
        "pi-workflows chaos mutate",
        "pi-workflows completion",
        "pi-workflows workflows",
        *(f"pi-workflows workflows {name}" for name in ("list", "show", "check", "graph")),
        "pi-workflows state",
        "pi-workflows state status",
        "pi-workflows state verify",
    }


@pytest.mark.parametrize("name", TREE)
def test_every_command_and_option_is_documented_with_an_example(name: str) -> None:
    command = TREE[name]
    assert command.help
    assert command.epilog
    assert f"  {name} " in command.epilog or "Exit codes" in command.epilog
    assert len(command.get_short_help_str(200)) <= 62, "the list of commands cuts it"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize(
    "name", [name for name in TREE if not isinstance(TREE[name], click.Group)]
)
def test_every_command_has_json_and_debug(name: str) -> None:
    flags = {flag for parameter in TREE[name].params for flag in parameter.opts}
    assert {"--json", "--debug"} <= flags


@pytest.mark.parametrize("name", TREE)
def test_help_is_shown_for_every_command(invoke: Invoke, name: str) -> None:
    result = invoke(*name.split()[1:], "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout


def test_the_root_help_lists_the_exit_codes(invoke: Invoke) -> None:
    text = invoke("--help").stdout
    for code in range(6):
        assert f"    {code}  " in text


def test_the_version_is_the_package_version(invoke: Invoke) -> None:
    assert PACKAGE_VERSION in invoke("--version").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show", "r1", "--json"],
        ["run", "echo", "--detach"],
        ["cancel", "r1"],
        ["server", "status"],
        ["server", "stop"],
        ["state", "verify", "--json"],
        ["--help"],
        ["chaos", "--help"],
        ["chaos", "run", "--help"],
    ],
    ids=" ".join,
)
def test_a_quick_command_imports_no_framework(serve: Serve, arguments: list[str]) -> None:
    answers = {
        "run.list": Answer(receipt={"items": [], "nextCursor": None}),
        "run.status": Answer(receipt={"state": {}}),
        "run.start": Answer(receipt={"runId": "r1", "status": "queued"}),
        "run.cancel": Answer(receipt={"verdict": "won", "status": "cancelled"}),
        "server.status": Answer(receipt={"pid": 1}),
        "server.stop": Answer(),
        "state.verify": Answer(receipt={"ok": True}),
    }
    with serve(answers):
        process = subprocess.run(
            [sys.executable, "-c", QUICK, *arguments], capture_output=True, text=True, check=True
        )
    assert process.stderr == "[] 0\n"


def test_a_bug_is_one_line_and_exit_1(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("pi_workflows.cli.view_commands.user_paths", broken)
    people = invoke("list")
    debug = invoke("list", "--debug")
    machine = invoke("list", "--json")
    assert (people.exit_code, debug.exit_code, machine.exit_code) == (1, 1, 1)
    assert people.stderr.count("\n") == 1
    assert "unexpected ZeroDivisionError: oops" in people.stderr
    assert "Traceback" in debug.stderr
    assert json.loads(machine.stdout)["error"]["code"] == "INTERNAL"


def test_an_interrupt_of_a_quick_command_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pi_workflows.cli.view_commands.user_paths", interrupted)
    result = invoke("list")
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr


def test_an_interrupt_while_the_command_loads_is_no_traceback() -> None:
    program = """if True:
        import signal, sys

        class Interrupting:
            def find_spec(self, name, path=None, target=None):
                if name == "click":
                    signal.raise_signal(signal.SIGINT)

        # A shell has what it runs in the background ignore interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.meta_path.insert(0, Interrupting())
        from pi_workflows.cli.entry import main
        main()
    """
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "")


def test_an_interrupt_that_was_ignored_by_whoever_started_the_command_stays_ignored() -> None:
    program = """if True:
        import signal, sys
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.argv[1:] = ["--version"]
        import atexit
        atexit.register(lambda: print(signal.getsignal(signal.SIGINT).name))
        from pi_workflows.cli.entry import main
        main()
    """
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert process.stdout.splitlines()[-1] == "SIG_IGN"


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(
    serve: Serve, paths: StatePaths
) -> None:
    items: list[JsonValue] = [{"runId": "r" * 1000}] * 100
    reading, writing = os.pipe()
    os.close(reading)
    with serve({"run.list": Answer(receipt={"items": items, "nextCursor": None})}):
        process = subprocess.run(
            [sys.executable, "-m", "pi_workflows.cli", "list", "--json"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(paths.home)},
        )
    os.close(writing)
    assert process.returncode == 1
    assert process.stderr == ""


def test_completion_is_clicks_own(paths: StatePaths) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pi_workflows.cli"],
        env={**os.environ, "HOME": str(paths.home), "_PI_WORKFLOWS_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_PI_WORKFLOWS_COMPLETE=bash_complete" in process.stdout
