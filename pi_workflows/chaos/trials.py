"""What the process of one mutation is asked, and what it says; both travel as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, cast

from pi_workflows.protocol.canonical import JsonObject
from runtime.chaos.outcome import Finding
from runtime.chaos.tally_json import finding_json, finding_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A mutation with the explorations that are to find it.

    Attributes:
        mutation: its name.
        ref: `NAME` or `FILE::NAME` of the scenario.
        promise: only a finding that names this one counts; None, for a scenario that names no
            promises: any finding does.
        seeds: explore these until something breaks; None explores whatever the engine can.
        choices: explore exactly this instead; empty for none.
        compares: when nothing breaks, see whether the fault has made any difference.
        shrink_s: how long a finding may be made smaller; 0 leaves it as it is.
    """

    mutation: str
    ref: str
    engine: str
    promise: str | None = None
    seeds: range | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    compares: bool = False
    shrink_s: float = 0.0

    def counts(self, finding: Finding) -> bool:
        """Say whether a finding is of the promise that is to break."""
        return self.promise is None or self.promise in finding.promise.split(", ")

    def to_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "mutation": self.mutation,
            "ref": self.ref,
            "engine": self.engine,
            "promise": self.promise,
            "seeds": None if self.seeds is None else [self.seeds.start, self.seeds.stop],
            "choices": dict(self.choices),
            "compares": self.compares,
            "shrinkS": self.shrink_s,
        }

    @classmethod
    def of_json(cls, document: JsonObject) -> Self:
        """Return the trial of a JSON object."""
        seeds = cast("list[int] | None", document["seeds"])
        return cls(
            mutation=cast("str", document["mutation"]),
            ref=cast("str", document["ref"]),
            engine=cast("str", document["engine"]),
            promise=cast("str | None", document["promise"]),
            seeds=None if seeds is None else range(*seeds),
            choices=cast("dict[str, str]", document["choices"]),
            compares=cast("bool", document["compares"]),
            shrink_s=cast("float", document["shrinkS"]),
        )


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a trial.

    Attributes:
        explored: how many explorations it took, with the one that broke.
        seconds: for which they took.
        finding: what broke of the promise that was to; None when nothing did, and the mutation
            survived.
        beside: what broke of another promise, of a mutation that survived; None when nothing did.
        error: why the trial itself failed; None when it did not.
        is_idle: nothing broke, and the fault has made no difference at all.
        shrunk_from: unusual decisions of the finding before it was made smaller; None if it was
            not.
    """

    explored: int
    seconds: float
    finding: Finding | None = None
    error: str | None = None
    is_idle: bool = False
    shrunk_from: int | None = None
    beside: Finding | None = None

    @property
    def is_caught(self) -> bool:
        """Whether the fault was found, and nothing was found without it."""
        return self.finding is not None and self.error is None

    def to_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "explored": self.explored,
            "seconds": self.seconds,
            "finding": None if self.finding is None else finding_json(self.finding),
            "beside": None if self.beside is None else finding_json(self.beside),
            "error": self.error,
            "isIdle": self.is_idle,
            "shrunkFrom": self.shrunk_from,
        }

    @classmethod
    def of_json(cls, document: JsonObject) -> Self:
        """Return what a JSON object says."""
        finding = cast("JsonObject | None", document["finding"])
        beside = cast("JsonObject | None", document["beside"])
        return cls(
            explored=cast("int", document["explored"]),
            seconds=cast("float", document["seconds"]),
            finding=None if finding is None else finding_of(finding),
            beside=None if beside is None else finding_of(beside),
            error=cast("str | None", document["error"]),
            is_idle=cast("bool", document["isIdle"]),
            shrunk_from=cast("int | None", document["shrunkFrom"]),
        )
