"""A mistake in a scenario is told as one, with its line; one of the product's is a finding."""

import re
from pathlib import Path
from typing import Final

import pytest

from pi_workflows.chaos.discovery import ScenarioUnknown, find
from pi_workflows.chaos.registry import engine
from runtime.chaos.engine import Wanted
from runtime.chaos.outcome import Finding, ScenarioRefused

TEMPLATE: Final = '''\
from pi_workflows.chaos.scene import Look, Me, Scene, scenario
from store import leases

async def me_async(_: Look) -> None:
    pass

@scenario({options})
def wrong(s: Scene) -> None:
    """Has a mistake."""
    job = s.resource("job")
    {declaring}

    @s.actor(count=2)
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        {acting}

    s.faults(clock_jump=(31.0,))

    @s.finally_
    def ends(look: Look) -> None:
        {checking}
'''


class Written:
    """A scenario in a file."""

    def __init__(self, folder: Path, options: str = "", **parts: str) -> None:
        lines = {"declaring": "pass", "acting": "pass", "checking": "pass"} | parts
        self.text: Final = TEMPLATE.format(options=options, **lines)
        self.file: Final = folder / "wrong.py"
        self.file.write_text(self.text)

    def refusal(self, by: str = "orders") -> str:
        """Return with which words an engine refuses it."""
        with pytest.raises(ScenarioRefused) as refused:
            self.findings(by)
        return str(refused.value)

    def finding(self, by: str = "orders") -> Finding:
        """Return what an engine finds."""
        return self.findings(by)[0]

    def unknown(self) -> str:
        """Return with which words its file is refused."""
        with pytest.raises(ScenarioUnknown) as unknown:
            find(f"{self.file}::wrong")
        return str(unknown.value)

    def at(self, what: str) -> str:
        """Return FILE:LINE of what it says."""
        numbers = [n for n, line in enumerate(self.text.split("\n"), 1) if what in line]
        return f"{self.file}:{numbers[-1]}: "

    def findings(self, by: str) -> list[Finding]:
        """Return all that an engine finds."""
        tallies = engine(by).explore(find(f"{self.file}::wrong"), Wanted(is_all=by == "orders"))
        return [finding for tally in tallies for finding in tally.findings]


MISTAKES: Final = {
    "claim.generatoin": "'NoneType' object has no attribute 'generatoin'",
    "undefined_name": "NameError",
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    "len(5)": "TypeError",
    "[][0]": "IndexError",
    "await me.clam(job)": "did you mean claim?",
    "await me.write(None, 'done')": "write takes a claim, and this is None",
    "await me.renew('mine')": "renew takes what `claim` has returned, not 'mine'",
    "await me.write(me.claim(job), 'done')": "this is a call that was not awaited",
    "await me.do('nothing')": "do takes a command",
    "await me.read(None)": "read takes a question",
    "await me.sleep('long')": "sleep takes seconds, not 'long'",
    "await me.do(lambda tx: tx.nothing())": "no attribute 'nothing'",
    "raise ValueError('lost')": "let it raise AssertionError where a promise is broken",
}


@pytest.mark.parametrize("acting", MISTAKES)
def test_a_mistake_of_an_actor_is_no_broken_promise(acting: str, tmp_path: Path) -> None:
    acting = f"claim = None; {acting}" if acting.startswith("claim.") else acting
    written = Written(tmp_path, acting=acting)
    said = written.refusal()
    assert said.startswith(written.at(acting)), said
    assert "the actor worker-0 fails by itself: " in said
    assert MISTAKES[acting.removeprefix("claim = None; ")] in said


@pytest.mark.parametrize("by", ["orders", "crash", "procs"])
def test_every_engine_tells_a_mistake_from_a_broken_promise(by: str, tmp_path: Path) -> None:
    written = Written(tmp_path, acting="len(5)")
    assert written.refusal(by).startswith(written.at("len(5)"))
    written = Written(tmp_path, acting="assert 1 > 2, 'one is not more'")
    assert "one is not more" in written.finding(by).complaint


def test_a_mistake_that_only_some_order_meets_is_told_with_what_came_before(
    tmp_path: Path,
) -> None:
    said = Written(tmp_path, acting="claim is None or claim.generation < 2 or len(5)").refusal()
    assert "Before that: " in said
    assert "clock +31 s" in said


def test_an_error_that_leaves_the_product_is_a_finding(tmp_path: Path) -> None:
    for acting in (
        "leases.claim(None, None, None, None)",
        "await me.do(lambda tx: leases.claim(tx, None, None, None))",
    ):
        said = Written(tmp_path, acting=acting).finding().complaint
        assert said.startswith("worker-0 failed: AttributeError: "), said
        assert re.search(r" \((leases|authority)\.py:\d+\)$", said), said


@pytest.mark.parametrize("by", ["orders", "procs"])
def test_an_invariant_that_fails_by_itself_is_told_with_its_own_line(
    by: str, tmp_path: Path
) -> None:
    written = Written(tmp_path, checking="look.evnts(job)")
    said = written.refusal(by)
    assert said.startswith(f"{written.at('look.evnts')}the invariant ends fails by itself: ")
    assert "did you mean events?" in said


def test_an_invariant_that_fails_only_after_a_power_cut_is_no_bug_of_the_harness(
    tmp_path: Path,
) -> None:
    """A claim that nobody has heard of is seen there alone."""
    check = "def heard(look):\n        if len(look.events(job)) == 1: look.acknowledged[0]"
    written = Written(tmp_path, declaring=f"{check}\n    s.always(heard)")
    assert written.findings("orders") == []
    said = written.refusal("crash")
    assert said.startswith(written.at("look.acknowledged[0]"))
    assert "the invariant heard fails by itself: IndexError" in said


@pytest.mark.parametrize("by", ["orders", "procs"])
def test_an_invariant_that_returns_something_could_not_fail(by: str, tmp_path: Path) -> None:
    written = Written(tmp_path, checking="return look.events(job) == []")
    said = written.refusal(by)
    assert "the invariant ends returns " in said
    assert written.at("@s.finally_") in said


DECLARATIONS: Final = {
    "s.faults(clok_jump=(31.0,))": "there is no fault 'clok_jump'; did you mean clock_jump?",
    "s.faults(kil=1)": "there is no fault 'kil'; did you mean kill?",
    "s.faults(kill=-1)": "the fault kill is -1; say how often it may happen",
    "s.faults(kill=True)": "the fault kill is True; say how often",
    "s.faults(kill='once')": "the fault kill is 'once'; say how often",
    "s.faults(clock_jump=31.0)": "clock_jump is 31.0; say for how many seconds, in a tuple",
    "s.faults(clock_jump='31')": "clock_jump is '31'; say for how many seconds",
    "s.faults(clock_jump=(0,))": "has 0 in it, which no clock can do",
    "s.faults(clock_jump=(float('nan'),))": "has nan in it, which no clock can do",
    "s.faults(clock_jump=('a',))": "has 'a' in it; say for how many seconds",
    "s.faults(sleep=(-1.0,))": "nobody sleeps backwards",
    "s.actor(count=0)": "count is 0; there is at least one actor of a kind",
    "s.actor(count='2')": "count is '2'; there is at least one",
    "s.actor()(len)": "the actor len is no async function",
    "s.resorce('job')": "did you mean resource?",
    "s.actor(cout=2)": "TypeError: actor() got an unexpected keyword argument 'cout'",
    "s.always(me_async)": "the invariant me_async is async, so it would never run",
    "len(5)": "declaring wrong fails: TypeError: object of type 'int' has no len()",
}


@pytest.mark.parametrize("declaring", DECLARATIONS)
@pytest.mark.parametrize("by", ["orders", "procs"])
def test_what_cannot_be_declared_is_refused_with_its_line(
    declaring: str, by: str, tmp_path: Path
) -> None:
    written = Written(tmp_path, declaring=declaring)
    said = written.refusal(by)
    assert said.startswith(written.at(declaring)), said
    assert DECLARATIONS[declaring] in said


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = "s.always(lambda look: None); s.finally_(lambda look: None)"
    assert "two invariants are called <lambda>" in Written(tmp_path, declaring=twice).refusal()


OPTIONS: Final = {
    "engines=('ordrs',)": "there is no engine for a Scene 'ordrs'; did you mean orders?",
    "engines=('sim',)": "there are: orders, crash, procs.",
    "engines='orders'": "engines is 'orders'; it is a collection of texts",
    "engines=()": "engines is empty; name one or more of orders, crash, procs",
    "promises=('P33',)": "there is no promise 'P33'; did you mean P3",
    "promises='P3'": "promises is 'P3'; it is a collection of texts",
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_misspelt_option_of_a_scenario_is_refused_with_its_line(
    options: str, tmp_path: Path
) -> None:
    written = Written(tmp_path, options)
    said = written.unknown()
    assert written.at("@scenario(") in said, said
    assert OPTIONS[options] in said
