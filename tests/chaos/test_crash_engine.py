"""Power cuts, double faults and I/O errors: what holds is seen to, what is planted is found."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from actors.owning import Owning
from actors.store_actor import StoreActor
from pi_workflows.chaos.crash_account import WORKLOADS, order_of
from pi_workflows.chaos.crash_engine import (
    DOUBLE_FAULTS,
    IO_ERRORS,
    POWER_CUTS,
    CrashEngine,
    ends_of,
)
from pi_workflows.chaos.crash_faults import AFTER, fail, judge, references_of
from pi_workflows.chaos.crash_ground import Ground, ground_of
from pi_workflows.chaos.crash_judge import Judge
from pi_workflows.chaos.crash_life import complaint_of
from pi_workflows.chaos.crash_reopening import Reopening, Told
from pi_workflows.chaos.crash_words import FIRST_LIFE, NEXT_START
from pi_workflows.chaos.registry import SCENARIOS
from pi_workflows.chaos.scene import Me, Scene, scenario
from runtime.chaos.choices import Benign, Choices
from runtime.chaos.disk_faults import Failure, Fault
from runtime.chaos.disk_history import History
from runtime.chaos.disk_log import DiskLog, Doing
from runtime.chaos.disk_model import Patch
from runtime.chaos.disk_survivors import SurvivingFile, Survivors
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import ScenarioRefused, Tally, Verdict
from store import host, opening, wal
from store.chaos.recording import RecordingFiles
from store.database import Writer
from store.files import Files
from store.host import HostClaim, HostProcess
from store.transaction import Transaction
from tests.chaos.few_writes import a_few_writes, explored_all

SMALL: Final = {POWER_CUTS: 200, DOUBLE_FAULTS: 200, IO_ERRORS: 20}


def explored(goals: dict[str, int]) -> dict[str, Tally]:
    return explored_all(Wanted(goals=SMALL | goals, findings_max=1))


def power_cuts() -> Tally:
    return explored({DOUBLE_FAULTS: 1, IO_ERRORS: 1})[POWER_CUTS]


def double_faults() -> Tally:
    return explored({POWER_CUTS: 1, DOUBLE_FAULTS: 900, IO_ERRORS: 1})[DOUBLE_FAULTS]


def test_nothing_is_lost_whatever_happens_to_the_disk() -> None:
    tallies = explored({})
    assert list(tallies) == [POWER_CUTS, DOUBLE_FAULTS, IO_ERRORS, WORKLOADS]
    for unit, tally in tallies.items():
        if unit == WORKLOADS:
            continue
        assert tally.verdict is Verdict.HELD, tally.findings
        assert tally.distinct is not None
        assert tally.distinct >= SMALL[unit]
        assert tally.checks["answered_is_there"] > 0
    assert tallies[POWER_CUTS].blind_spots == []


def test_first_start_makes_a_whole_database_or_none() -> None:
    wanted = Wanted(goals={POWER_CUTS: 200, DOUBLE_FAULTS: 100, IO_ERRORS: 10})
    for tally in CrashEngine().explore(SCENARIOS["first_start"], wanted):
        assert tally.verdict is Verdict.HELD, tally.findings


@pytest.mark.parametrize("place", [FIRST_LIFE, NEXT_START])
def test_first_and_last_call_that_can_fail_lose_nothing(place: str) -> None:
    with ground_of(a_few_writes) as ground:
        references = references_of(ground, ground.live(Choices(Benign()), 0))
        log = (references.lived.life if place == FIRST_LIFE else references.restarted).log
        writes = sum(operation.doing is Doing.WRITE for operation in log.operations)
        for failure in Failure:
            for at in (1, writes):
                failed = fail(ground, references, place, Fault(failure, at))
                assert complaint_of(failed.life, has_failed=True) is None
                for persistence in AFTER:
                    assert judge(ground, failed, 0, persistence) is None


def test_parts_share_the_work() -> None:
    tallies = [
        CrashEngine().explore(a_few_writes, Wanted(goals=SMALL, part=(part, 2)))
        for part in range(2)
    ]
    for units in zip(*tallies, strict=True):
        whole = units[0]
        for part in units[1:]:
            if whole.unit == POWER_CUTS:  # A double fault comes with all cuts of its start.
                assert (part.distinct or 0) < SMALL[whole.unit]
            whole.add(part)
        assert whole.verdict is Verdict.HELD
        assert (whole.distinct or 0) >= SMALL.get(whole.unit, 0)


def test_every_operation_of_the_first_life_is_cut_however_few_states_are_wanted() -> None:
    tally = explored({POWER_CUTS: 1, DOUBLE_FAULTS: 1, IO_ERRORS: 1})[POWER_CUTS]
    with ground_of(a_few_writes) as ground:
        operations = ground.live(Choices(Benign()), 0).life.position
    assert tally.reached == tally.places == operations
    assert tally.explored > operations
    late = CrashEngine().explore(a_few_writes, Wanted(seeds=range(1), budget_s=0))[0]
    assert late.reached == 0


def test_a_long_life_is_cut_everywhere_but_torn_in_one_way() -> None:
    """Else it would take the time of many others."""
    once = explored({POWER_CUTS: 200, DOUBLE_FAULTS: 1, IO_ERRORS: 1})[POWER_CUTS]
    twice = explored({POWER_CUTS: 500, DOUBLE_FAULTS: 1, IO_ERRORS: 1})[POWER_CUTS]
    assert once.reached == twice.reached == once.places
    torn = "power cut, kept some sectors"
    assert 0 < once.faults[torn] < twice.faults[torn]
    assert once.faults["power cut, kept everything"] >= (once.places or 0) // 2


def test_of_double_faults_it_is_told_at_how_many_places_the_first_one_was() -> None:
    tally = explored({POWER_CUTS: 1, IO_ERRORS: 1})[DOUBLE_FAULTS]
    assert tally.places is not None
    assert 0 < tally.reached < tally.places


def at_the_end(ground: Ground) -> tuple[Survivors, History, Callable[[int], Told]]:
    """Return what is left of a server that was killed before its end, and what may be left."""
    lived = ground.live(Choices(Benign()), 0)
    killed = references_of(ground, lived).killed
    names = killed.names
    files = {name: SurvivingFile(bytes(killed.files[names[name]].cached), 0) for name in names}
    return Survivors(files), lived.life.history, lived.life.told()


def judged(judge: Judge, left: Survivors, history: History, told: Callable[[int], Told]) -> None:
    assert judge.complaint(left, history, 10**6, told) is None


def test_states_that_a_start_can_tell_apart_all_go_through_it() -> None:
    with ground_of(a_few_writes) as ground:
        left, history, told = at_the_end(ground)
        log = left.files["state.sqlite-wal"]
        judge = ground.judge
        judge.begin_counting(())
        judged(judge, left, history, told)
        assert judge.examined == 1
        judged(judge, left, history, told)
        assert judge.examined == 1, "nothing has changed"
        end = len(log.base)
        for number, tail in enumerate((bytes(7), bytes(4120)), 2):
            log.patches, log._content = (Patch(end, tail),), None
            judged(judge, left, history, told)
            assert judge.examined == number, "the rest of the log is another one"
        log.patches, log._content = (Patch(end, b"junk---"),), None
        judged(judge, left, history, told)
        assert judge.examined == 3, "no start can tell this from seven zeros"


def test_what_is_left_is_looked_at_when_its_life_had_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a finding would depend on what was lived or repeated before it."""
    looked_at: list[int] = []

    def noted(self: Reopening, *_: object) -> None:
        looked_at.append(self.at_ms)

    monkeypatch.setattr(Reopening, "examine", noted)
    with ground_of(SCENARIOS["two_servers"]) as ground:
        lives = [ground.live(Choices(order_of(seed)), seed).life for seed in range(8)]
        assert len({life.ended_ms for life in lives}) > 1, "the clock jumps in some of them"
        prepared = lives[0].history.versions[0].content
        assert prepared is not None
        left = Survivors({"state.sqlite": SurvivingFile(prepared, 0)})
        for life in [*lives, *reversed(lives)]:
            position = life.history.versions[1].begun
            assert ground.complaint(life, left, position, life.told()) is None
    assert sorted(looked_at) == sorted({life.ended_ms for life in lives}), "once at each instant"


def test_an_invariant_counts_as_often_as_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with ground_of(a_few_writes) as ground:
        left, history, told = at_the_end(ground)
        judge = ground.judge
        judge.begin_counting(ground.check_names)
        assert judge.checks == {"answered_is_there": 0}
        judged(judge, left, history, told)
        ran = judge.checks["answered_is_there"]
        assert ran > 0
        judged(judge, left, history, told)
        assert judge.checks["answered_is_there"] == ran, "it was not looked at again"
        judge.begin_counting(ground.check_names)
        report = {"ok": False, "violations": [], "schema": False, "integrity": 1, "foreignKeys": 1}
        monkeypatch.setattr("pi_workflows.chaos.crash_reopening.verify", lambda _: report)
        complaint = judge.complaint(left, history, 10**6, told)
        assert complaint == "P12: state verify finds schema"
        assert judge.checks["answered_is_there"] == 0, "before its turn something else was found"


def test_what_may_be_found_changes_though_the_files_do_not() -> None:
    with ground_of(a_few_writes) as ground:
        left, history, told = at_the_end(ground)
        judge, last = ground.judge, told(len(history.versions) - 1)
        told = lambda _: last  # noqa: E731
        judged(judge, left, history, told)
        history.add(b"another content", 0, "a commit that is not on the disk")
        judged(judge, left, history, told)
        history.tell(10**6)
        assert str(judge.complaint(left, history, 10**6, told)).startswith("P1: somebody was told")


def test_a_state_is_judged_anew_when_more_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left does not change between a commit that is not flushed and its answer."""
    positions: dict[object, set[int]] = {}
    judge = Judge.complaint

    def noted(
        self: Judge,
        left: Survivors,
        history: History,
        position: int,
        told: Callable[[int], Told],
    ) -> str | None:
        positions.setdefault(left.key, set()).add(history.certain(position))
        return judge(self, left, history, position, told)

    monkeypatch.setattr(Judge, "complaint", noted)
    monkeypatch.setattr(DiskLog, "synced", lambda *_, **__: None)
    power_cuts()
    assert any(len(certain) > 1 for certain in positions.values())


def require_found(tally: Tally, *promises: str) -> None:
    """A finding says which promise is broken, and its choices alone break it again."""
    assert tally.verdict is Verdict.VIOLATED, tally
    [finding] = tally.findings
    assert finding.promise in promises
    assert not tally.not_deterministic
    again = CrashEngine().repeat(a_few_writes, finding.choices, finding.seed)
    assert again.finding == finding
    assert not again.unused
    assert any(moment.lane == "disk" for moment in again.timeline)


def test_commits_that_are_not_flushed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    relaxed = tuple(each.replace("FULL", "NORMAL") for each in opening._WRITER_PRAGMAS)
    monkeypatch.setattr(opening, "_WRITER_PRAGMAS", relaxed)
    require_found(power_cuts(), "P1")


def test_commits_that_are_never_flushed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    relaxed = tuple(
        each.replace("synchronous = FULL", "synchronous = OFF") for each in opening._WRITER_PRAGMAS
    )
    monkeypatch.setattr(opening, "_WRITER_PRAGMAS", relaxed)
    require_found(power_cuts(), "P1")


def test_disk_that_only_says_that_it_flushes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(self: DiskLog, file: int, name: str, *, failed: bool = False) -> None:
        """Forget the flush."""

    monkeypatch.setattr(DiskLog, "synced", lying)
    require_found(power_cuts(), "P1")


def test_answer_before_the_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real_commit = StoreActor._commit

    async def hasty(self: StoreActor, answers: list[Callable[[], None]]) -> None:
        for answer in answers:
            answer()
        await real_commit(self, [])

    monkeypatch.setattr(StoreActor, "_commit", hasty)
    require_found(power_cuts(), "P1")


def test_start_that_does_not_copy_the_log_aside_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trusting(_database: object, _files: Files) -> bool:
        return False

    monkeypatch.setattr(opening, "settle_wal", trusting)
    require_found(double_faults(), "P1", "P2")


def test_start_that_flushes_the_old_log_in_place_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a failed flush the next one says that all is well, and flushes nothing."""

    def flushed(database: Path, files: Files) -> bool:
        log = wal.wal_path(database)
        if files.size(log):
            files.sync(log)
        return True

    monkeypatch.setattr(opening, "settle_wal", flushed)
    require_found(double_faults(), "P1", "P2")


def test_start_that_leaves_the_new_name_of_the_log_to_sqlite_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SQLite happens to flush the directory with the log; nobody may count on that."""
    monkeypatch.setattr(RecordingFiles, "sync_directory", lambda _self, _path: None)
    require_found(double_faults(), "P1")


def test_server_that_has_failed_and_takes_its_log_along_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(self: Owning) -> Writer:
        return self._state.open_writer()

    in_next_start = Fault(Failure.READ_ERROR, 250)
    with ground_of(a_few_writes) as ground:
        references = references_of(ground, ground.live(Choices(Benign()), 0))
        failed = fail(ground, references, NEXT_START, in_next_start)
        assert failed.life.refusal is not None
        assert judge(ground, failed, 0, AFTER[0]) is None
        monkeypatch.setattr(Owning, "open", forgetful)
        failed = fail(ground, references, NEXT_START, in_next_start)
        complaint = judge(ground, failed, 0, AFTER[0])
    assert complaint is not None
    assert complaint.startswith("P12: a server that has failed has removed its log")


def test_start_that_takes_no_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def remembered(tx: Transaction, process: HostProcess, *, holder_gone: bool) -> HostClaim:
        assert holder_gone
        row = host.current(tx)
        return HostClaim(row.epoch, process.host_id, row.token_hash or b"")

    monkeypatch.setattr(host, "acquire", remembered)
    tally = power_cuts()
    assert tally.verdict is Verdict.VIOLATED


def test_life_is_a_function_of_its_seed_and_choices() -> None:
    lives = []
    for _ in range(2):
        with ground_of(a_few_writes) as ground:
            lives.append(ground.live(Choices(Benign()), 5).life)
    assert lives[0].log.operations == lives[1].log.operations
    assert lives[0].moments == lives[1].moments
    with ground_of(a_few_writes) as ground:
        other = ground.live(Choices(Benign()), 6).life
    assert other.log.operations != lives[0].log.operations


def test_seeds_that_are_wanted_are_all_explored_or_the_budget_is_said_to_have_ended() -> None:
    tallies = CrashEngine().explore(a_few_writes, Wanted(seeds=range(1), budget_s=0))
    assert all(tally.verdict is Verdict.BUDGET_ENDED for tally in tallies)


def test_preparation_before_the_first_start_is_refused() -> None:
    @scenario()
    def impossible(s: Scene) -> None:
        s.begin_without_database()
        s.resource("job")

        @s.actor()
        async def nobody(me: Me) -> None:
            await me.sync("here")

    with pytest.raises(ScenarioRefused, match="before the first start nothing can be prepared"):
        CrashEngine().explore(impossible, Wanted())


def test_time_is_shared_by_what_is_wanted_of_each_unit() -> None:
    night = ends_of({"power-cut states": 250_000, "double faults": 125_000, "workloads": 3})
    assert list(night) == ["power-cut states", "double faults", "I/O errors"]
    assert night["power-cut states"] == pytest.approx(0.49, abs=0.02)
    assert night["double faults"] == pytest.approx(0.93, abs=0.02)
    assert night["I/O errors"] == pytest.approx(1)
    workloads = ends_of({"power-cut states": 5_000, "double faults": 1, "workloads": 1_000})
    assert workloads["double faults"] < 0.01


def test_time_of_a_change_is_for_one_long_life() -> None:
    for goals in ({}, {"power-cut states": 2_500, "double faults": 1_250, "workloads": 0}):
        assert ends_of(goals)["power-cut states"] == 0.6
