"""Settings are changed by many while a settings route is about to be recorded."""

import dataclasses
from typing import Final, cast

from pi_workflows.chaos.courier import FETCH, Courier, Runner, courier
from pi_workflows.chaos.run_looks import check_run
from pi_workflows.chaos.run_scenes import cancel, say_again, serve, tell
from pi_workflows.chaos.scene import Command, Look, Me, Scene, scenario
from pi_workflows.protocol.canonical import JsonObject, JsonValue
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.protocol.states import ActorType
from runtime.chaos.outcome import PromiseBroken
from store import attempts, blobs, settings_scopes
from store.authority import Permit
from store.blobs import Blob
from store.proposals import FinishAttempt
from store.resources import Actor
from store.run_messages import Answered
from store.run_resuming import RunEndedError
from store.settings_chain import ChainBroken, ChainPlace, check_links, replay
from store.settings_changing import ChangedSettings, NewChange, change_settings
from store.settings_errors import RunNotStartedError, SettingsMoved
from store.transaction import Reading, Transaction

HUMAN: Final = Actor(ActorType.HUMAN)
CHANGED: Final = "settings.changed"
RECORDED: Final = "node_finished"
_LOOKS: Final = 2
_REFUSED: Final = (RunNotStartedError, RunEndedError)


def steered(s: Scene, name: str = "run") -> Courier:
    """Prepare a run whose first node routes by settings: a list of those who changed them."""
    plain = courier(s.run_id(name))
    nodes: list[JsonValue] = [
        {**node, "settingsRoute": node["id"] == FETCH}
        for node in cast("list[JsonObject]", plain.graph["nodes"])
    ]
    rules: JsonObject = {"paths": [{"path": "", "add": ["human"]}]}
    graph: JsonObject = {**plain.graph, "nodes": nodes, "settings": rules}
    run = dataclasses.replace(plain, graph=graph, definition=DefinitionSnapshot.parse(graph))

    def create(tx: Transaction) -> object:
        run.create(tx)
        settings_scopes.create(tx, run.run_id, "", 1, blobs.put(tx, Blob.of_json([])))
        return None

    s.prepare(create)
    return run


def stands(reading: Reading, run: Courier) -> tuple[int, list[JsonValue]]:
    """Return change number and value of the settings."""
    scope = settings_scopes.require(reading, run.run_id, None)
    value = cast("list[JsonValue]", blobs.read_json(reading, scope.current_hash))
    return scope.change_number, value


def changing(
    run: Courier, name: str, made_of: tuple[int, list[JsonValue]]
) -> Command[ChangedSettings | None]:
    """Return the command that adds a name to the settings; None when they have moved."""
    number, value = made_of
    patch: JsonValue = [{"op": "add", "path": "/-", "value": name}]
    change = NewChange(
        run.run_id,
        None,
        f"request-{name}",
        "chaos",
        Blob.of_json(patch),
        number,
        Blob.of_json([*value, name]),
    )

    def command(tx: Transaction) -> ChangedSettings | None:
        try:
            return change_settings(tx, Permit(HUMAN), change)
        except SettingsMoved:
            return None

    return command


async def change(me: Me, run: Courier) -> ChangedSettings | None:
    """Add the actor's name to the settings, as a server does for a person: look, then record.

    Once more if another was faster; None when the run has not begun, or has ended.
    """
    for _ in range(_LOOKS):
        seen = await me.read(lambda reading: stands(reading, run), point="look")
        command = changing(run, me.name, seen)
        done = await say_again(me, command, "change", _REFUSED)
        if done is not None:
            return done
    return None


def _chose(finish: FinishAttempt, value: JsonValue) -> FinishAttempt:
    return dataclasses.replace(finish, output=Blob.of_json(value), output_value=value)


async def steer(me: Me, runner: Runner) -> None:
    """Do what a runner does at a settings route: choose by what it is told, until that counts."""
    start = runner.starts(FETCH)
    value = _told(await tell(me, runner, start))
    while value is not None:
        value = _told(await tell(me, runner, _chose(runner.finishes(start), value)))


def _told(answer: Answered | None) -> list[JsonValue] | None:
    """Return the settings that a try has to run with, or to run once more with."""
    for told in cast("list[JsonObject]", answer.result.get("transitions", [])) if answer else []:
        if "settings" in told:
            settings = cast("JsonObject", told["settings"])
            return cast("list[JsonValue]", settings["value"])
    return None


def check_settings(look: Look, run: Courier) -> None:
    """Hold settings and the route to what they promise.

    Raises:
        PromiseBroken: names the promise.
    """
    check_run(look, run)
    reading = look.reading
    place: ChainPlace | None = ChainPlace()
    try:
        check_links(reading, run.run_id)
        while place is not None:
            place = replay(reading, run.run_id, place)
    except ChainBroken as broken:
        raise PromiseBroken(f"P2: {broken}") from broken
    scope = settings_scopes.require(reading, run.run_id, None)
    changes = look.events(scope.resource_id, CHANGED)
    number, names = stands(reading, run)
    if not len(changes) == number == len(names) == len(set(map(str, names))):
        raise PromiseBroken(f"P2: change {number}, {len(changes)} events, {len(names)} names")
    _check_route(look, run, [event.event_seq for event in changes], names)


def _check_route(look: Look, run: Courier, changes: list[int], names: list[JsonValue]) -> None:
    """The recorded choice was made of exactly the changes that were there before it."""
    recorded = look.events(run.resource, RECORDED)
    last = attempts.last_step(look.reading, run.run_id)
    if not recorded or last is None or last.output_hash is None:
        return
    before = sum(seq < recorded[0].event_seq for seq in changes)
    chosen = blobs.read_json(look.reading, last.output_hash)
    if chosen != names[:before]:
        raise PromiseBroken(f"P2: a route of {chosen} was recorded after change {before}")


def _told_truly(look: Look, run: Courier) -> None:
    """Whoever was told of his change finds it under its number, once."""
    _, names = stands(look.reading, run)
    for known in look.acknowledged:
        told = known.result
        if isinstance(told, ChangedSettings) and names[told.change_number - 1] != known.actor:
            raise PromiseBroken(f"P1: {known.actor} was told change {told.change_number}")


@scenario(promises=("P1", "P2", "P6"), engines=("orders", "procs"))
def changed_or_recorded(s: Scene) -> None:
    """Two people change the settings by which a route is chosen and recorded."""
    run = steered(s)

    @s.actor()
    async def server(me: Me) -> None:
        runner = await serve(me, run)
        if runner is not None:
            await steer(me, runner)

    @s.actor(count=2)
    async def person(me: Me) -> None:
        await change(me, run)

    @s.always
    def sound(look: Look) -> None:
        check_settings(look, run)

    @s.finally_
    def told_truly(look: Look) -> None:
        _told_truly(look, run)


@scenario(promises=("P2", "P6"), engines=("orders", "procs"))
def changed_or_ended(s: Scene) -> None:
    """Settings of a run are changed while it is cancelled, and answers get lost."""
    run = steered(s)

    @s.actor()
    async def server(me: Me) -> None:
        runner = await serve(me, run)
        if runner is not None:
            await steer(me, runner)
            await cancel(me, run, runner.claim)

    @s.actor()
    async def person(me: Me) -> None:
        await change(me, run)

    s.faults(drop=1)

    @s.always
    def nothing_after_the_end(look: Look) -> None:
        check_settings(look, run)
        ends = look.events(run.resource, "run_cancelled")
        scope = settings_scopes.require(look.reading, run.run_id, None)
        for event in look.events(scope.resource_id, CHANGED):
            if ends and event.event_seq > ends[0].event_seq:
                raise PromiseBroken("P2: settings of a run were changed after its end")
