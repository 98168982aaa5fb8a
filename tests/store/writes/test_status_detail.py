"""What a run says of itself while a node runs."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.store.writes.conftest import WrittenRun


def detail(run: "WrittenRun") -> object:
    return run.store.rows("SELECT status_detail FROM runs")[0][0]


def test_status_detail_is_that_of_the_node_that_runs_and_ends_with_the_run(
    run: "WrittenRun",
) -> None:
    run.begin()
    first = replace(run.started("fetch"), status_detail="fetching")
    run.advance(first)
    assert detail(run) == "fetching"
    run.advance(run.finished(first))
    run.work(run.started("send"))
    assert detail(run) is None
    run.work(replace(run.started("note"), status_detail="noting"))
    assert detail(run) == "noting"
    run.advance(run.completed())
    assert detail(run) is None
