"""Shares of the orders of processes, and how orders with a kill are drawn."""

from collections import Counter
from collections.abc import Callable

import pytest

from runtime.chaos.choices import Choices, Systematic
from runtime.chaos.procs_sampling import SHARE_DEPTH, Sampled, Shared, Skipped, estimated
from runtime.chaos.walks import Uniform

OPTIONS = ("a", "b", "c")


def path(choices: Choices, depth: int) -> str:
    return "".join(choices.pick("step", OPTIONS[: 2 + level % 2]) for level in range(depth))


def paths_of(source: Shared, depth: int) -> list[str]:
    found = []
    while True:
        try:
            taken = path(Choices(source), depth)
        except Skipped:
            pass
        else:
            if source.is_mine:
                found.append(taken)
        if not source.advance():
            return found


def every_path(depth: int) -> list[str]:
    source, found = Systematic(), []
    while True:
        found.append(path(Choices(source), depth))
        if not source.advance():
            return found


@pytest.mark.parametrize("depth", [2, SHARE_DEPTH, SHARE_DEPTH + 3])
def test_shares_are_disjoint_and_together_everything(depth: int) -> None:
    shares = [paths_of(Shared((number, 3)), depth) for number in range(3)]
    assert sorted(each for share in shares for each in share) == sorted(every_path(depth))
    if depth > SHARE_DEPTH:
        assert all(shares), "nobody is idle"


def killed_at(seed: int, steps: int) -> list[int]:
    source = Sampled(seed, kill_within=steps)
    left = ["kill a", "kill b"]
    found = []
    for step in range(steps):
        options = ["a", "b", *left, "clock +31 s"]
        if options[source.pick("a after it", options)].startswith("kill "):
            found.append(step)
            left = []
    return found


def test_a_kill_is_sure_and_as_likely_late_as_early() -> None:
    steps, seeds = 12, range(1_200)
    kills = [killed_at(seed, steps) for seed in seeds]
    assert all(len(each) == 1 for each in kills)
    counts = Counter(step for each in kills for step in each)
    assert set(counts) == set(range(steps))
    assert max(counts.values()) < 2 * min(counts.values())


def drawn(seed: int, options: tuple[str, ...]) -> list[str]:
    source = Sampled(seed)
    return [options[source.pick(f"a after it#{number}", options)] for number in range(40)]


@pytest.mark.parametrize(
    "holds",
    [
        lambda picked: "b" in picked,
        lambda picked: "pause a" in picked,
        lambda picked: not {"pause a", "clock +31 s"} & set(picked),
    ],
    ids=["another goes on", "a fault happens", "no fault happens"],
)
def test_samples_reach_what_can_happen(holds: Callable[[list[str]], bool]) -> None:
    """Some seeds take faults, some none at all; the same seed always draws the same."""
    options = ("a", "b", "pause a", "clock +31 s")
    assert any(holds(drawn(seed, options)) for seed in range(20))
    assert drawn(3, options) == drawn(3, options)


def test_probes_tell_how_many_orders_there_are() -> None:
    probed = []
    for seed in range(200):
        choices = Choices(Uniform(seed))
        # The tree is uneven: after an "a" there is nothing to decide any more.
        while choices.pick("step", OPTIONS) != "a" and len(choices.made) < SHARE_DEPTH:
            pass
        probed.append(choices.made)
    real = sum(2**level for level in range(SHARE_DEPTH)) + 2**SHARE_DEPTH
    assert real * 0.8 < estimated(probed) < real * 1.25
