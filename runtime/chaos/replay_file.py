"""One exploration as a file: its unusual decisions by name, and what it broke.

Nothing of the timeline is kept: whoever replays it gets that anew. The decisions are those of
`choices`, so leaving one out does not change what the others mean.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pi_workflows.protocol.canonical import CanonicalError, JsonObject, JsonValue, parse_json
from runtime.chaos.outcome import Finding
from runtime.private_files import replace_file

FORMAT: Final = "pi-workflows.chaos-replay.v1"

_BYTES_MAX: Final = 4 * 1024 * 1024
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = frozenset(
    {
        "format",
        "scenario",
        "engine",
        "seed",
        "choices",
        "versions",
        "violation",
        "traceSha256",
    }
)
_OPTIONAL: Final = frozenset({"mutation"})


class ReplayFileRefused(Exception):
    """A file is no replay file; the text names the file, the member and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFile:
    """What a replay file holds.

    Attributes:
        scenario: `NAME` of a shipped one, or `FILE::NAME`.
        seed: what all other decisions are drawn from; None where the choices alone decide.
        choices: the unusual decisions by name.
        versions: of everything that the meaning of a decision may depend on, by its name.
        promise: what it broke when it was written.
        complaint: in the words of the invariant.
        trace_sha256: digest of the whole trace, 64 hexadecimal digits.
        mutation: name of the fault that was planted, and is planted again; None for none.
    """

    scenario: str
    engine: str
    seed: int | None
    choices: dict[str, str]
    versions: dict[str, str]
    promise: str
    complaint: str
    trace_sha256: str
    mutation: str | None = None

    @classmethod
    def of(
        cls, finding: Finding, ref: str, versions: Mapping[str, str], mutation: str | None = None
    ) -> Self:
        """Return the file of a finding; `ref` is how its scenario is found again."""
        return cls(
            scenario=ref,
            engine=finding.engine,
            seed=finding.seed,
            choices=dict(finding.choices),
            versions=dict(versions),
            promise=finding.promise,
            complaint=finding.complaint,
            trace_sha256=finding.digest,
            mutation=mutation,
        )

    def with_finding(self, finding: Finding) -> Self:
        """Return the same file for a smaller finding of the same scenario."""
        return dataclasses.replace(
            self,
            choices=dict(finding.choices),
            promise=finding.promise,
            complaint=finding.complaint,
            trace_sha256=finding.digest,
        )

    def differences(self, versions: Mapping[str, str]) -> list[str]:
        """Return, in words, which versions are no longer those of the file; [] when none."""
        return [
            f"{name} is {versions.get(name, 'unknown')}, was {was}"
            for name, was in sorted(self.versions.items())
            if versions.get(name) != was
        ]

    def text(self) -> str:
        """Return the file's text: JSON, one decision per line, the same for the same content."""
        document: JsonObject = {
            "format": FORMAT,
            "scenario": self.scenario,
            "engine": self.engine,
            "seed": self.seed,
            "choices": dict(self.choices),
            "versions": dict(sorted(self.versions.items())),
            "violation": {"promise": self.promise, "complaint": self.complaint},
            "traceSha256": self.trace_sha256,
        }
        if self.mutation is not None:
            document["mutation"] = self.mutation
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Put the text at `path`; missing folders are made, an older file is replaced.

        Raises:
            OSError: it cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, self.text().encode())


def read_replay_file(path: Path) -> ReplayFile:
    """Read a replay file strictly.

    Raises:
        ReplayFileRefused: it is missing, is no JSON, lacks a member, has one too many, or one of
            them has another type.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ReplayFileRefused(f"there is no file {path}.") from None
    except OSError as error:
        raise ReplayFileRefused(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > _BYTES_MAX:
        raise ReplayFileRefused(f"{path} is larger than {_BYTES_MAX} bytes; no replay file is.")
    try:
        document = parse_json(data)
    except CanonicalError as error:
        raise ReplayFileRefused(f"{path} is no replay file: {error}.") from None
    return _Reading(path).file(document)


class _Reading:
    """Checks one document; each refusal begins with the path."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path

    def file(self, value: JsonValue) -> ReplayFile:
        document = self._object(value, "the document")
        found = document.get("format")
        if found != FORMAT:
            raise self._refusal(f'"format" is not "{FORMAT}"')
        self._exactly(document, _KEYS, "the document", _OPTIONAL)
        seed = document["seed"]
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
            raise self._refusal('"seed" is neither a whole number nor null')
        violation = self._object(document["violation"], '"violation"')
        self._exactly(violation, frozenset({"promise", "complaint"}), '"violation"')
        trace = self._text(document["traceSha256"], '"traceSha256"')
        if not _SHA256.fullmatch(trace):
            raise self._refusal('"traceSha256" has not 64 hexadecimal digits')
        choices = self._texts(document["choices"], '"choices"')
        for name in choices:
            family, _, number = name.rpartition("#")
            if not family or not number.isdecimal() or int(number) < 1:
                raise self._refusal(f'"choices" names "{name}"; a decision is "FAMILY#N"')
        return ReplayFile(
            scenario=self._text(document["scenario"], '"scenario"'),
            engine=self._text(document["engine"], '"engine"'),
            seed=seed,
            choices=choices,
            versions=self._texts(document["versions"], '"versions"'),
            promise=self._text(violation["promise"], '"violation.promise"'),
            complaint=self._text(violation["complaint"], '"violation.complaint"', empty=True),
            trace_sha256=trace,
            mutation=self._text(document["mutation"], '"mutation"')
            if "mutation" in document
            else None,
        )

    def _refusal(self, rule: str) -> ReplayFileRefused:
        return ReplayFileRefused(f"{self._path} is no replay file: {rule}.")

    def _exactly(
        self,
        document: JsonObject,
        keys: frozenset[str],
        where: str,
        optional: frozenset[str] = frozenset(),
    ) -> None:
        if missing := sorted(keys - document.keys()):
            raise self._refusal(f"{where} lacks {', '.join(missing)}")
        if extra := sorted(document.keys() - keys - optional):
            raise self._refusal(f"{where} has {', '.join(extra)}, which nobody knows")

    def _object(self, value: JsonValue, where: str) -> JsonObject:
        if not isinstance(value, dict):
            raise self._refusal(f"{where} is no object")
        return value

    def _text(self, value: JsonValue, where: str, *, empty: bool = False) -> str:
        if not isinstance(value, str) or not (value or empty):
            raise self._refusal(f"{where} is no text")
        return value

    def _texts(self, value: JsonValue, where: str) -> dict[str, str]:
        document = self._object(value, where)
        return {name: self._text(each, f"{where}: {name}") for name, each in document.items()}
