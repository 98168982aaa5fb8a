"""Behaviour of the operator's log."""

import json
import os
import stat
from pathlib import Path

import pytest

from runtime.clock import WallMs
from runtime.log import Log, LogFile


class _Clock:
    def wall_ms(self) -> WallMs:
        return WallMs(1_767_323_045_006)

    def monotonic(self) -> float:
        return 0.0


def _records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "server.log"


def test_record_is_one_line_of_json_with_bound_fields(path: Path) -> None:
    log = Log(LogFile(path), _Clock(), "server")
    log.bind("scheduler", runId="r-1").warning("run_parked", generation=7, reason="a\nb")
    assert _records(path) == [{
        "at": "2026-01-02T03:04:05.006Z",
        "level": "warning",
        "component": "scheduler",
        "event": "run_parked",
        "runId": "r-1",
        "generation": 7,
        "reason": "a\nb",
    }]  # fmt: skip


def test_file_and_directory_are_private(path: Path) -> None:
    """Case: C7."""
    Log(LogFile(path), _Clock(), "server").info("started")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "key",
    ["token", "tokenHash", "client_secret", "credentials", "payload", "runInput", "finalOutput"],
)
def test_secret_and_bulky_values_are_never_written_at_any_depth(path: Path, key: str) -> None:
    log = Log(LogFile(path), _Clock(), "server")
    log.info("event", **{key: "canary"}, detail={"list": [{key: {"a": "canary"}}]})
    assert "canary" not in path.read_text()
    assert _records(path)[0][key] == "[redacted]"


def test_long_texts_are_cut_and_strange_values_are_named_only(path: Path) -> None:
    log = Log(LogFile(path), _Clock(), "server")
    log.error("event", text="é" * 5_000, other=object(), number=float("nan"), half="\ud800")
    record = _records(path)[0]
    text = record["text"]
    assert isinstance(text, str)
    assert len(text.encode()) <= 2_048
    assert text.endswith("é…")
    assert (record["other"], record["number"], record["half"]) == ("object", "nan", "?")


def test_five_files_are_kept_and_the_oldest_goes_first(path: Path) -> None:
    file = LogFile(path, bytes_max=200)
    log = Log(file, _Clock(), "server")
    for number in range(20):
        log.info("event", number=number)
    file.close()
    files = sorted(entry.name for entry in path.parent.iterdir())
    assert files == ["server.log", *(f"server.log.{number}" for number in range(1, 5))]
    numbers = [
        record["number"] for name in reversed(files) for record in _records(path.with_name(name))
    ]
    assert numbers == list(range(20))[-len(numbers) :]
    assert all(entry.stat().st_size <= 200 for entry in path.parent.iterdir())
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()} == {0o600}


def test_line_that_cannot_be_written_is_counted_not_raised(path: Path) -> None:
    file = LogFile(path)
    log = Log(file, _Clock(), "server")
    assert file._descriptor is not None
    os.close(file._descriptor)
    log.info("lost")
    log.info("lost_too")
    file._descriptor = file._open()
    log.info("back")
    log.info("more")
    assert [record.get("droppedLines") for record in _records(path)] == [2, None]


def test_lines_go_to_standard_error_too_when_asked(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Log(LogFile(path, to_stderr=True), _Clock(), "server").info("started")
    assert capsys.readouterr().err == path.read_text()
