"""What a disk keeps, under each model of persistence."""

from typing import Final

import pytest

from runtime.chaos.disk_faults import CALLS, Failure, Fault, Faults
from runtime.chaos.disk_log import DiskLog
from runtime.chaos.disk_model import DiskModel
from runtime.chaos.disk_survivors import SECTOR, Persistence, survivors
from runtime.simulation.chance import Chance, Draws

OLD: Final = b"o" * (4 * SECTOR)
NEW: Final = b"n" * SECTOR
DRAWS: Final = 200


def draws(seed: int) -> Draws:
    return Chance(seed).stream("disk")


def played(log: DiskLog, content: dict[str, bytes] | None = None) -> DiskModel:
    model = DiskModel(content)
    for operation in log.operations:
        model.apply(operation)
    return model


def outcomes(model: DiskModel, persistence: Persistence, name: str) -> set[bytes | None]:
    """What `name` can hold after a power cut; None where it is not there."""
    return {
        survivors(model, persistence, draws(seed)).content().get(name) for seed in range(DRAWS)
    }


def three_writes() -> DiskModel:
    """A file of four old sectors; the first three are overwritten and not flushed."""
    log = DiskLog({"f": 1})
    for sector in range(3):
        log.wrote(log.file_of("f"), "f", sector * SECTOR, NEW)
    return played(log, {"f": OLD})


def shape(content: bytes | None) -> str:
    """One letter for each sector, `?` for junk."""
    assert content is not None
    sectors = [content[at : at + SECTOR] for at in range(0, len(content), SECTOR)]
    return "".join(chr(each[0]) if len(set(each)) == 1 else "?" for each in sectors)


def test_killed_process_leaves_everything() -> None:
    assert outcomes(three_writes(), Persistence.KEPT, "f") == {NEW * 3 + OLD[:SECTOR]}


def test_dropping_disk_keeps_only_what_was_flushed() -> None:
    assert outcomes(three_writes(), Persistence.DROPPED, "f") == {OLD}


def test_prefix_keeps_the_first_writes_in_order() -> None:
    found = {shape(content) for content in outcomes(three_writes(), Persistence.PREFIX, "f")}
    assert found == {"oooo", "nooo", "nnoo", "nnno"}


def test_last_write_of_a_prefix_is_cut_at_a_sector() -> None:
    log = DiskLog({"f": 1})
    log.wrote(log.file_of("f"), "f", 0, NEW * 4)
    model = played(log, {"f": OLD})
    found = {shape(content) for content in outcomes(model, Persistence.PREFIX, "f")}
    assert found == {"oooo", "nooo", "nnoo", "nnno", "nnnn"}


def test_subset_keeps_any_of_the_writes() -> None:
    found = {shape(content) for content in outcomes(three_writes(), Persistence.SUBSET, "f")}
    assert found == {a + b + c + "o" for a in "on" for b in "on" for c in "on"}


def test_torn_write_keeps_any_of_its_sectors_and_garbage_fills_lost_ones() -> None:
    log = DiskLog({"f": 1})
    log.wrote(log.file_of("f"), "f", 0, NEW * 2)
    model = played(log, {"f": OLD})
    torn = {shape(content) for content in outcomes(model, Persistence.TORN, "f")}
    assert torn == {"oooo", "nooo", "onoo", "nnoo"}
    junk = {shape(content) for content in outcomes(model, Persistence.GARBAGE, "f")}
    assert junk == {a + b + "oo" for a in "on?" for b in "on?"}


def test_write_past_the_end_leaves_zeros_between() -> None:
    log = DiskLog()
    log.wrote(log.file_of("f"), "f", 2 * SECTOR, NEW)
    assert shape(played(log).cached()["f"]) == "\0\0n"


@pytest.mark.parametrize("persistence", Persistence)
def test_flushed_file_survives_every_power_cut(persistence: Persistence) -> None:
    log = DiskLog({"f": 1})
    log.wrote(log.file_of("f"), "f", 0, NEW)
    log.truncated(log.file_of("f"), "f", SECTOR)
    log.synced(log.file_of("f"), "f")
    model = played(log, {"f": OLD})
    assert model.is_settled
    assert outcomes(model, persistence, "f") == {NEW}


def test_failed_flush_lets_its_writes_stay_in_the_cache_and_never_reach_the_disk() -> None:
    log = DiskLog({"f": 1})
    number = log.file_of("f")
    log.wrote(number, "f", 0, NEW)
    log.synced(number, "f", failed=True)
    log.wrote(number, "f", SECTOR, NEW)
    log.synced(number, "f")
    model = played(log, {"f": OLD})
    assert {shape(each) for each in outcomes(model, Persistence.KEPT, "f")} == {"nnoo"}
    for persistence in set(Persistence) - {Persistence.KEPT}:
        assert {shape(each) for each in outcomes(model, persistence, "f")} == {"onoo"}


def test_lying_disk_flushes_nothing() -> None:
    log = DiskLog({"f": 1})
    log.lies = True
    log.wrote(log.file_of("f"), "f", 0, NEW)
    log.synced(log.file_of("f"), "f")
    assert outcomes(played(log, {"f": OLD}), Persistence.DROPPED, "f") == {OLD}


def test_name_is_durable_only_after_the_directory_was_flushed() -> None:
    log = DiskLog()
    log.wrote(log.file_of("f"), "f", 0, NEW)
    log.synced(log.file_of("f"), "f")
    model = played(log)
    assert outcomes(model, Persistence.DROPPED, "f") == {None}
    assert outcomes(model, Persistence.SUBSET, "f") == {None, NEW}
    log.directory_synced()
    assert outcomes(played(log), Persistence.DROPPED, "f") == {NEW}


def renamed() -> tuple[DiskLog, dict[str, bytes]]:
    log = DiskLog({"f": 1})
    log.wrote(log.file_of("g"), "g", 0, NEW)
    log.synced(log.file_of("g"), "g")
    log.renamed("g", "f")
    return log, {"f": OLD}


def test_rename_leaves_the_old_or_the_new_content_and_never_none() -> None:
    log, content = renamed()
    for persistence in Persistence:
        assert outcomes(played(log, content), persistence, "f") <= {OLD, NEW}
    assert outcomes(played(log, content), Persistence.SUBSET, "f") == {OLD, NEW}
    log.directory_synced()
    assert outcomes(played(log, content), Persistence.DROPPED, "f") == {NEW}
    assert outcomes(played(log, content), Persistence.DROPPED, "g") == {None}


def test_removed_name_may_come_back_until_the_directory_is_flushed() -> None:
    log = DiskLog({"f": 1})
    log.removed("f")
    assert outcomes(played(log, {"f": OLD}), Persistence.SUBSET, "f") == {OLD, None}
    log.directory_synced()
    assert outcomes(played(log, {"f": OLD}), Persistence.SUBSET, "f") == {None}


def test_link_gives_one_file_two_names() -> None:
    log = DiskLog({"f": 1})
    log.linked("f", "g")
    log.wrote(log.file_of("g"), "f", 0, NEW)
    model = played(log, {"f": OLD})
    kept = survivors(model, Persistence.KEPT, draws(0)).content()
    assert kept["f"] == kept["g"] == NEW + OLD[SECTOR:]
    assert outcomes(model, Persistence.DROPPED, "g") == {None}


def test_copy_of_a_disk_goes_its_own_way() -> None:
    model = three_writes()
    other = model.copy()
    log = DiskLog({"f": 1})
    log.synced(log.file_of("f"), "f")
    other.apply(log.operations[0])
    assert other.is_settled
    assert not model.is_settled
    assert outcomes(model, Persistence.DROPPED, "f") == {OLD}


def test_outcome_of_a_cut_stays_as_it_was_when_the_disk_goes_on() -> None:
    log = DiskLog({"f": 1})
    model = DiskModel({"f": OLD})
    for sector in range(2):
        log.wrote(log.file_of("f"), "f", sector * SECTOR, NEW)
        log.synced(log.file_of("f"), "f")
    model.apply(log.operations[0])
    model.apply(log.operations[1])
    first = survivors(model, Persistence.DROPPED, draws(0))
    key = first.key
    model.apply(log.operations[2])
    model.apply(log.operations[3])
    second = survivors(model, Persistence.DROPPED, draws(0))
    assert first.content() == {"f": NEW + OLD[SECTOR:]}
    assert second.content() == {"f": NEW * 2 + OLD[2 * SECTOR :]}
    assert first.key == key != second.key


def test_equal_outcomes_have_equal_keys_and_different_ones_do_not() -> None:
    model = three_writes()
    keys: dict[object, dict[str, bytes]] = {}
    for persistence in Persistence:
        for seed in range(DRAWS):
            found = survivors(model, persistence, draws(seed))
            assert keys.setdefault(found.key, found.content()) == found.content()
    assert len({content["f"] for content in keys.values()}) == len(keys)


def test_labels_of_operations_are_unique_and_name_their_place() -> None:
    log = DiskLog()
    log.place = "commit 2"
    for _ in range(2):
        log.wrote(log.file_of("f"), "f", 0, NEW)
    assert [each.label for each in log.operations] == [
        "commit 2 create f 1",
        "commit 2 write f 1",
        "commit 2 write f 2",
    ]


def test_fault_strikes_the_nth_call_of_its_kind_as_often_as_said() -> None:
    faults = Faults(Fault(Failure.DISK_FULL, 2))
    calls = ["sync", "write", "read", "write", "write"]
    assert [faults.strike(call, "f") for call in calls] == [None, None, None, "disk full", None]
    faults.arm(Fault(Failure.READ_ERROR, 2, None))
    assert [faults.strike("read", "f") for _ in range(3)] == [None, "read error", "read error"]
    faults.repair()
    assert faults.strike("read", "f") is None
    assert faults.fired == {Failure.DISK_FULL: 1, Failure.READ_ERROR: 2}


def test_every_failure_befalls_some_call() -> None:
    assert set(CALLS) == set(Failure)
