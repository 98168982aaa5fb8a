"""The workflows that come with the package: what they are called, and that they do it."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pi_workflows.authoring import Ctx, Definition, InputRejected, Workflow
from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.loading import load_file, source_identity
from pi_workflows.builtins import monitor, wait
from pi_workflows.protocol.builtins import BUILTINS, Builtin, builtin_of, identity_of
from pi_workflows.protocol.sources import SourceKind
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.sources import DISK_SOURCES

if TYPE_CHECKING:
    from pi_workflows.protocol.canonical import JsonObject
    from tests.runner.conftest import Player, ScriptedServer

NOWHERE = Path("/nowhere")


def compiled(name: str) -> Definition:
    file = BUILTINS[name].file
    loaded = load_file(file, source_identity(file)[0])
    return compile_definition(loaded, FoundChildren(DISK_SOURCES, NOWHERE, NOWHERE), file)


@pytest.fixture
def passing_time(server: "ScriptedServer", monkeypatch: pytest.MonkeyPatch) -> "ScriptedServer":
    """A server between whose runners exactly the time passes that they have asked for."""

    def now() -> float:
        tries = server.sent("finishAttempt")
        return 1_000.0 + sum(cast("int", one.get("retryAfterMs", 0)) for one in tries) / 1000

    monkeypatch.setattr(time, "time", now)
    return server


@pytest.mark.parametrize("builtin", BUILTINS.values(), ids=list(BUILTINS))
def test_a_built_in_is_a_workflow_of_its_own_id_that_others_can_include(builtin: Builtin) -> None:
    definition = compiled(builtin.builtin_id)
    assert definition.name == builtin.builtin_id
    assert re.fullmatch("[a-z][a-z0-9-]{0,63}", builtin.builtin_id)
    assert definition.exits
    assert definition.contract_id == f"pi-workflows.{builtin.builtin_id}.v1"
    assert builtin_of(builtin.file) is builtin


def test_revision_follows_the_bytes_of_the_file(tmp_path: Path) -> None:
    file = BUILTINS["wait"].file
    one, other = (identity_of(file, digits * 32) for digits in ("ab", "cd"))
    assert (one.kind, one.ref) == (SourceKind.BUILTIN, "wait")
    assert re.fullmatch("[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", one.revision)
    assert one.revision != other.revision
    assert identity_of(tmp_path / "wait.py", "ab" * 32).kind is SourceKind.FILE


def test_waiting_asks_for_all_of_it_at_once_and_is_over_when_it_is_over(
    passing_time: "ScriptedServer", player: "type[Player]"
) -> None:
    passing_time.input = {"seconds": 86_400}
    player(compiled("wait"), passing_time).play()
    assert passing_time.path == [("set_end", "ok"), ("wait", "ok")]
    waited = [one.get("retryAfterMs") for one in passing_time.sent("finishAttempt")]
    assert waited == [None, 86_400_000, None]


def test_waiting_no_time_asks_for_none(
    passing_time: "ScriptedServer", player: "type[Player]"
) -> None:
    passing_time.input = {"seconds": 0}
    player(compiled("wait"), passing_time).play()
    assert len(passing_time.sent("finishAttempt")) == 2


Check = Callable[..., "JsonObject"]


@pytest.fixture
def watch(
    passing_time: "ScriptedServer",
    player: "type[Player]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Check:
    """Plays the monitor in a folder of its own and returns its final output."""
    monkeypatch.chdir(tmp_path)

    def play(command: str, **options: "str | float") -> "JsonObject":
        given: JsonObject = {"command": command, "every": 10, "within": 25}
        given.update(options)
        passing_time.input = given
        player(compiled("monitor"), passing_time).play()
        assert passing_time.finished is not None
        assert passing_time.finished["status"] == "completed", passing_time.finished
        return cast("JsonObject", passing_time.finished["finalOutput"])

    return play


def test_a_condition_that_holds_is_met_by_the_first_check(
    watch: Check, passing_time: "ScriptedServer"
) -> None:
    result = watch("echo fine")
    assert result == {
        "met": True,
        "checks": 1,
        "waited": 0,
        "last": "exit code 0",
        "output": "fine\n",
    }
    assert [node for node, _ in passing_time.path] == ["begin", "check", "report", "met"]


def test_each_check_says_how_it_went_and_how_much_of_the_time_is_gone(
    passing_time: "ScriptedServer",
    player: "type[Player]",
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "echo >> tries; test $(wc -l < tries) -ge 3"
    passing_time.input = {"command": command, "every": 10.04, "within": 25}
    playing = player(compiled("monitor"), passing_time)
    playing.play()
    said = [cast("JsonObject", update["data"]) for update in playing.updates]
    assert [
        (one["status"], one["label"], one.get("completed"), one.get("total")) for one in said
    ] == [
        ("waiting", "check 1: exit code 1", 0, 25),
        ("waiting", "check 2: exit code 1", 10, 25),
        ("completed", "check 3: exit code 0", None, None),
    ]


def test_a_check_that_came_too_late_is_no_share_of_the_time(
    passing_time: "ScriptedServer",
    player: "type[Player]",
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    passing_time.input = {"command": "exit 3", "every": 10, "within": 10}
    playing = player(compiled("monitor"), passing_time)
    playing.play()
    said = cast("JsonObject", playing.updates[-1]["data"])
    assert said["status"] == "completed"
    assert said["label"] == "not met in time, check 2: exit code 3"
    assert {"completed", "total"}.isdisjoint(said)


@pytest.mark.parametrize(
    ("options", "budgets"),
    [
        ({"within": 25}, [25_000, 15_000, 5_000, 1_000]),
        ({"within": 15, "check_timeout": 7}, [7_000, 5_000, 1_000]),
        ({"within": 15, "check_timeout": 0.5}, [500, 500, 500]),
    ],
)
def test_a_check_never_goes_on_after_the_deadline(
    options: dict[str, float], budgets: list[int], watch: Check, passing_time: "ScriptedServer"
) -> None:
    """The one that is made when the time is over has a second."""
    watch("exit 1", **options)
    assert [one["timeoutMs"] for one in passing_time.sent("setDeadline")] == budgets


def test_a_condition_is_looked_for_until_it_holds(
    watch: Check, passing_time: "ScriptedServer"
) -> None:
    """Between two checks the run is parked for exactly the pause."""
    result = watch("echo >> tries; test $(wc -l < tries) -ge 3")
    assert (result["met"], result["checks"], result["waited"]) == (True, 3, 20)
    turn = ["check", "report", "pause", "pause/set_end", "pause/wait", "pause/__piw_exit_waited"]
    nodes = [node for node, _ in passing_time.path]
    assert nodes == ["begin", *turn, *turn, "check", "report", "met"]
    waits = [one["retryAfterMs"] for one in passing_time.sent("finishAttempt") if "retry" in one]
    assert waits == [10_000, 10_000]


def test_the_last_check_is_made_when_the_time_is_over(watch: Check) -> None:
    result = watch("echo no; exit 3")
    assert (result["met"], result["checks"], result["waited"]) == (False, 4, 25)
    assert (result["last"], result["output"]) == ("exit code 3", "no\n")


@pytest.mark.parametrize(
    ("command", "options", "last"),
    [
        ("echo booting", {"expect": "ready"}, "the text that is expected is not there"),
        ("kill -9 $$", {}, "ended by a signal"),
    ],
)
def test_a_check_that_fails_in_another_way_is_told(
    watch: Check, command: str, options: dict[str, str], last: str
) -> None:
    result = watch(command, within=1, **options)
    assert result["met"] is False
    assert last in str(result["last"])


def test_a_folder_that_is_not_there_ends_the_run_before_any_check(
    passing_time: "ScriptedServer",
    player: "type[Player]",
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    passing_time.input = {"command": "true", "cwd": "absent"}
    player(compiled("monitor"), passing_time).play()
    assert passing_time.path == [("begin", "failed")]
    assert passing_time.finished is not None
    assert f"cwd: there is no folder {tmp_path}/absent" in str(passing_time.finished["error"])


def test_expected_text_is_looked_for_in_the_output(watch: Check) -> None:
    assert watch("echo it is ready now", expect="ready")["met"] is True


@pytest.mark.parametrize(
    "given",
    [
        None,
        {"command": ""},
        {"command": "true", "every": 0},
        {"command": "true", "every": 0.1, "within": 86_400},
        {"command": "true", "evry": 5},
    ],
)
def test_an_input_that_makes_no_sense_starts_nothing(given: "JsonObject | None") -> None:
    with pytest.raises(InputRejected):
        compiled("monitor").accept_input(given)


def test_the_title_is_one_line_and_never_too_long() -> None:
    title: Any = compiled("monitor").title
    assert title(monitor.MonitorIn(command="a\nb"), "monitor") == "a"
    assert len(title(monitor.MonitorIn(command="c" * 999), "monitor")) == 200


def test_the_most_patient_input_fits_into_the_step_limit() -> None:
    assert compiled("monitor").max_steps >= 4 * monitor.CHECKS_MAX
    assert monitor.DAYS_MAX == wait.DAYS_MAX


def test_included_by_reference_with_the_contract_its_exits_are_typed(
    passing_time: "ScriptedServer", player: "type[Player]"
) -> None:
    wf = Workflow("parent")

    @wf.compute()
    def start() -> str:
        return "false"

    watched = wf.include(
        "watch",
        "builtin:monitor",
        contract=monitor.workflow,
        input=lambda ctx: monitor.MonitorIn(command=ctx.output(start), every=1, within=0.5),
    )

    @wf.compute()
    def tell(ctx: Ctx[Any]) -> list[object]:
        late = ctx.exited(watched, monitor.TIMED_OUT)
        return [ctx.exited(watched, monitor.MET), late and late.checks]

    wf.edge(start, watched)
    wf.edge(watched[monitor.MET], tell)
    wf.edge(watched[monitor.TIMED_OUT], tell)
    player(wf.build(start=start), passing_time).play()
    assert passing_time.finished is not None
    assert passing_time.finished["finalOutput"] == [None, 2]
