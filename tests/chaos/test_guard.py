"""Whatever a scenario takes from the machine is refused with its line, however it came by it."""

import importlib.util
import random
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from pi_workflows.chaos.discovery import ScenarioUnknown, find
from pi_workflows.chaos.registry import engine
from runtime.chaos.engine import Wanted
from runtime.chaos.guard import Guard
from runtime.chaos.outcome import ScenarioRefused, Verdict
from runtime.chaos.own_code import OwnCode
from runtime.chaos.scenario import Scenario

TEMPLATE: Final = '''\
{imports}
from pi_workflows.chaos.scene import Look, Me, Scene, scenario

{before}

@scenario()
def hasty(s: Scene) -> None:
    """Does what it must not."""
    job = s.resource("job")
    {declaring}

    @s.actor()
    async def worker(me: Me) -> None:
        claim = await me.claim(job)
        {acting}

    @s.finally_
    def ends(look: Look) -> None:
        {checking}
'''

REACHING: Final = {
    "from time import sleep": "sleep(3_600)",
    "from time import sleep as nap": "nap(3_600)",
    "import time as clock": "clock.monotonic()",
    "import time": "time.localtime()",
    "from time import strftime": "strftime('%H')",
    "from random import random": "random()",
    "from random import gauss": "gauss(0, 1)",
    "from random import Random": "Random()",
    "import random": "random.SystemRandom().random()",
    "from os import urandom": "urandom(8)",
    "from os import fork": "fork()",
    "from os import system": "system('true')",
    "from secrets import token_urlsafe": "token_urlsafe()",
    "from secrets import choice": "choice([1, 2])",
    "from uuid import uuid4": "uuid4()",
    "from datetime import datetime": "datetime.now()",
    "from datetime import datetime as moment": "moment.utcnow()",
    "from datetime import date": "date.today()",
    "import datetime": "datetime.datetime.now(datetime.UTC)",
    "import datetime as dt": "dt.date.today()",
    "import os": "import datetime; datetime.datetime.now()",
    "import sys": "from datetime import date as day; day.today()",
    "from threading import Thread": "Thread(target=print).start()",
    "from threading import Event": "Event().wait(3_600)",
    "from concurrent.futures import ThreadPoolExecutor": "ThreadPoolExecutor().submit(print)",
    "from socket import socket": "socket()",
    "from socket import create_connection": "create_connection(('127.0.0.1', 9))",
    "from subprocess import run": "run(['true'])",
    "from subprocess import Popen": "Popen(['true'])",
    "from select import select": "select([], [], [], 3_600)",
    "import asyncio": "await asyncio.sleep(3_600)",
    "from trio import sleep": "await sleep(3_600)",
    "from asyncio import sleep": "await sleep(0)",
}


def text(imports: str = "", **parts: str) -> str:
    """Return the text of a scenario's file."""
    lines = {"before": "", "declaring": "pass", "acting": "pass", "checking": "pass"}
    return TEMPLATE.format(imports=imports, **lines | parts)


def line_of(source: str, what: str) -> int:
    """Return the line of the last thing that a file says of this kind."""
    [*_, last] = [number for number, line in enumerate(source.split("\n"), 1) if what in line]
    return last


def imported_before(file: Path, monkeypatch: pytest.MonkeyPatch) -> Scenario[Any]:
    """Import a file as a test runner does: before anybody looks."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    declared: Scenario[Any] = module.hasty
    return declared


def refusal(scenario: Scenario[Any], by: str = "orders") -> str:
    """Return with which words an engine refuses a scenario."""
    with pytest.raises(ScenarioRefused) as refused:
        engine(by).explore(scenario, Wanted(seeds=range(1)))
    return str(refused.value)


@pytest.mark.parametrize("imports", REACHING)
def test_an_actor_gets_nothing_from_the_machine(imports: str, tmp_path: Path) -> None:
    source = text(imports, acting=REACHING[imports])
    file = tmp_path / "hasty.py"
    file.write_text(source)
    said = refusal(find(f"{file}::hasty"))
    assert f"{file}:{line_of(source, REACHING[imports])}: " in said


@pytest.mark.parametrize(
    "imports",
    [
        "from time import sleep",
        "from random import random",
        "from os import urandom",
        "from datetime import datetime",
        "import datetime as dt",
        "from uuid import uuid4",
    ],
)
def test_a_file_that_was_imported_before_gets_nothing_either(
    imports: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = text(imports, acting=REACHING[imports])
    file = tmp_path / "imported_before.py"
    file.write_text(source)
    said = refusal(imported_before(file, monkeypatch))
    assert f"{file}:{line_of(source, REACHING[imports])}: " in said
    assert "is not available to an actor" in said


@pytest.mark.parametrize("by", ["orders", "crash", "procs"])
@pytest.mark.parametrize("where", ["declaring", "acting", "checking"])
def test_every_engine_looks_at_every_part_of_a_scenario(
    by: str, where: str, tmp_path: Path
) -> None:
    source = text("from time import sleep", **{where: "sleep(3_600)"})
    file = tmp_path / "hasty.py"
    file.write_text(source)
    said = refusal(find(f"{file}::hasty"), by)
    assert f"{file}:{line_of(source, 'sleep(3_600)')}: time.sleep is not available" in said


def test_a_command_gets_nothing_and_no_except_hides_it(tmp_path: Path) -> None:
    acting = "await me.unless_lost(lambda tx: draw(), 'draw')"
    before = "def draw():\n    try:\n        random()\n    except Exception:\n        pass"
    source = text("from random import random", before=before, acting=acting)
    file = tmp_path / "hasty.py"
    file.write_text(source)
    said = refusal(find(f"{file}::hasty"))
    assert f"{file}:{line_of(source, '  random()')}: " in said


def test_what_lies_deeper_in_a_file_that_is_looked_at_is_seen(tmp_path: Path) -> None:
    before = "class Clock:\n    now = time\n\ndef wait(nap=sleep):\n    nap(3_600)"
    for acting, line in (("Clock().now()", "Clock().now()"), ("wait()", "nap(3_600)")):
        source = text("from time import sleep, time", before=before, acting=acting)
        file = tmp_path / "hasty.py"
        file.write_text(source)
        assert f"{file}:{line_of(source, line)}: " in refusal(find(f"{file}::hasty"))


def test_a_neighbour_of_the_file_gets_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "neighbours_of_hasty"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "drawing.py").write_text("from random import random\n\ndef draw():\n    random()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "hasty.py"
    file.write_text(text("from neighbours_of_hasty.drawing import draw", acting="draw()"))
    assert f"{folder / 'drawing.py'}:4: random.random" in refusal(find(f"{file}::hasty"))


HONEST: Final = """\
import asyncio, datetime, logging, os, random, secrets, socket, subprocess, threading, time, uuid
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import date, datetime as moment
from random import Random
from time import gmtime, sleep
from uuid import UUID, uuid4

@dataclass
class Note:
    at: moment = moment(2026, 1, 1)
    key: UUID = field(default_factory=uuid4)

logging.getLogger(__name__).info("imported")
"""

USING: Final = (
    "gmtime(0), Random(7).random(), moment.fromtimestamp(0), moment.fromisoformat('2026-01-01'),"
    " Note(key=UUID(int=1)), isinstance(Note().at if False else date(2026, 1, 1), date),"
    " date(2026, 1, 2) - date(2026, 1, 1), logging.getLogger(__name__).info('used')"
)


def test_honest_imports_and_honest_use_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "hasty.py"
    file.write_text(text(HONEST, acting=USING, checking="assert isinstance(moment.min, moment)"))
    [tally] = engine("orders").explore(find(f"{file}::hasty"), Wanted(is_all=True))
    assert tally.verdict is Verdict.HELD


@pytest.mark.parametrize(
    "before", ["sleep(3_600)", "try:\n    sleep(3_600)\nexcept Exception:\n    pass"]
)
def test_a_file_that_sleeps_while_it_is_imported_is_refused_with_the_line(
    before: str, tmp_path: Path
) -> None:
    source = text("from time import sleep", before=before)
    file = tmp_path / "hasty.py"
    file.write_text(source)
    with pytest.raises(ScenarioUnknown) as unknown:
        find(f"{file}::hasty")
    assert f"{file}:{line_of(source, 'sleep(3_600)')}: time.sleep is not" in str(unknown.value)
    assert "while it is imported" in str(unknown.value)


def test_a_library_does_what_it_likes_while_it_is_imported(tmp_path: Path) -> None:
    """Only the author's own lines are looked at then."""
    script = (
        "import sys\n"
        "from pi_workflows.chaos.discovery import find\n"
        "gone = [name for name in sys.modules if name.partition('.')[0] == 'tempfile']\n"
        "for name in gone: del sys.modules[name]\n"
        f"print(find({str(tmp_path / 'hasty.py')!r}).name)\n"
    )
    file = tmp_path / "hasty.py"
    file.write_text(text("import tempfile, multiprocessing.pool, http.server, email.utils"))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "hasty\n", done.stderr


def functions() -> list[Callable[..., object]]:
    return [
        select.select,
        time.time,
        random.random,  # noqa: S311 - named, not drawn
        threading.Thread.start,
        subprocess.Popen.__init__,
    ]


def test_everything_is_as_before_when_an_exploration_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = functions()
    file = tmp_path / "restored.py"
    file.write_text(
        text("from random import random\nfrom datetime import date", acting="date.today()")
    )
    scenario = imported_before(file, monkeypatch)
    refusal(scenario)
    assert functions() == before
    module = sys.modules["restored"]
    assert (module.random, module.date) == (random.random, date)  # noqa: S311 - named, not drawn
    assert isinstance(datetime.now(), datetime)  # noqa: DTZ005 - it may be asked again


def test_another_thread_is_left_alone() -> None:
    """The harness has some: one ends the process when nobody wants its answers any more."""
    guard, may_go = Guard(OwnCode(__file__)), threading.Event()
    seen: list[float] = []

    def look() -> None:
        may_go.wait()
        seen.append(time.monotonic())

    thread = threading.Thread(target=look)
    thread.start()
    with guard.installed(), guard:
        with pytest.raises(ScenarioRefused):
            time.monotonic()
        may_go.set()
        thread.join()
    assert len(seen) == 1
