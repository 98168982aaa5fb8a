"""Figures and findings as JSON, to travel from the process that explored to the one that adds up.

Both ends are of the same installation, so what arrives is taken as it is: a member that is
missing is a bug and raises.
"""

from collections import Counter
from typing import cast

from pi_workflows.protocol.canonical import JsonObject, JsonValue
from runtime.chaos.outcome import Finding, Moment, Tally


def tally_json(tally: Tally) -> JsonObject:
    """Return a tally as a JSON object."""
    return {
        "scenario": tally.scenario,
        "engine": tally.engine,
        "unit": tally.unit,
        "explored": tally.explored,
        "distinct": tally.distinct,
        "keys": list[JsonValue](tally.keys),
        "promised": tally.promised,
        "complete": tally.complete,
        "shared": tally.is_shared,
        "faults": dict(tally.faults),
        "faultKinds": list[JsonValue](sorted(tally.fault_kinds)),
        "declared": list[JsonValue](sorted(tally.declared)),
        "idle": list[JsonValue](sorted(tally.idle)),
        "unchecked": tally.is_unchecked,
        "reached": tally.reached,
        "places": tally.places,
        "examined": tally.examined,
        "pairs": list[JsonValue](sorted(tally.pairs)),
        "pairsFeasible": tally.pairs_feasible,
        "checks": dict(tally.checks),
        "findings": [finding_json(finding) for finding in tally.findings],
        "broken": tally.broken,
        "notDeterministic": list[JsonValue](tally.not_deterministic),
        "seconds": tally.seconds,
    }


def tally_of(document: JsonObject) -> Tally:
    """Return the tally of a JSON object."""
    return Tally(
        scenario=cast("str", document["scenario"]),
        engine=cast("str", document["engine"]),
        unit=cast("str", document["unit"]),
        explored=cast("int", document["explored"]),
        distinct=cast("int | None", document["distinct"]),
        keys=set(cast("list[int]", document["keys"])),
        promised=cast("int", document["promised"]),
        complete=cast("bool", document["complete"]),
        is_shared=cast("bool", document["shared"]),
        faults=Counter(cast("dict[str, int]", document["faults"])),
        fault_kinds=frozenset(cast("list[str]", document["faultKinds"])),
        declared=frozenset(cast("list[str]", document["declared"])),
        idle=frozenset(cast("list[str]", document["idle"])),
        is_unchecked=cast("bool", document["unchecked"]),
        reached=cast("int", document["reached"]),
        places=cast("int | None", document["places"]),
        examined=cast("int | None", document["examined"]),
        pairs=set(cast("list[str]", document["pairs"])),
        pairs_feasible=cast("int | None", document["pairsFeasible"]),
        checks=Counter(cast("dict[str, int]", document["checks"])),
        findings=[finding_of(each) for each in cast("list[JsonObject]", document["findings"])],
        broken=cast("int", document["broken"]),
        not_deterministic=cast("list[str]", document["notDeterministic"]),
        seconds=cast("float", document["seconds"]),
    )


def finding_json(finding: Finding) -> JsonObject:
    """Return a finding as a JSON object."""
    return {
        "scenario": finding.scenario,
        "engine": finding.engine,
        "promise": finding.promise,
        "complaint": finding.complaint,
        "choices": dict(finding.choices),
        "seed": finding.seed,
        "timeline": [
            [moment.at_ms, moment.lane, moment.what, moment.result, moment.generation]
            for moment in finding.timeline
        ],
        "digest": finding.digest,
    }


def finding_of(document: JsonObject) -> Finding:
    """Return the finding of a JSON object."""
    return Finding(
        scenario=cast("str", document["scenario"]),
        engine=cast("str", document["engine"]),
        promise=cast("str", document["promise"]),
        complaint=cast("str", document["complaint"]),
        choices=cast("dict[str, str]", document["choices"]),
        seed=cast("int | None", document["seed"]),
        timeline=tuple(
            _moment(each) for each in cast("list[list[JsonValue]]", document["timeline"])
        ),
        digest=cast("str", document["digest"]),
    )


def _moment(fields: list[JsonValue]) -> Moment:
    at_ms, lane, what, result, generation = fields
    return Moment(
        cast("int", at_ms),
        cast("str", lane),
        cast("str", what),
        cast("str", result),
        cast("int | None", generation),
    )
