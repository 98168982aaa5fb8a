"""Graphs are drawn whole: every node, every way, what is included inside its mount."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from pi_workflows.authoring.compiling import compile_definition
from pi_workflows.authoring.loading import load_file, source_identity
from pi_workflows.cli.graph import draw_dot, draw_mermaid, draw_text, in_order
from pi_workflows.cli.node_names import shown_node
from pi_workflows.protocol.builtins import BUILTINS
from pi_workflows.protocol.canonical import JsonObject
from pi_workflows.protocol.definition import DefinitionSnapshot
from pi_workflows.runner.children import FoundChildren
from pi_workflows.runner.sources import DISK_SOURCES

MONITOR: Final = """\
monitor: starts at begin

begin  compute
  -> check

check  shell, idempotent monitor.check
  on $result.outcome
  failed    -> report
  ok        -> report
  timed_out -> report

report  action, idempotent monitor.report
  on $.route
  again     -> pause
  met       -> met
  timed_out -> timed_out

pause  into wait
  -> pause/set_end

  pause/set_end  compute
    -> pause/wait

  pause/wait  compute
    -> pause.waited

  pause.waited  out of wait
    -> check

met  compute
  ends the run

timed_out  compute
  ends the run"""

HOSTILE: Final[JsonObject] = {
    "schema": "pi-workflows.definition-snapshot.v1",
    "name": 'a "name"',
    "startAt": "end",
    "maxSteps": 5,
    "nodes": [
        {"id": "end", "type": "compute"},
        {
            "id": "subgraph",
            "type": "action",
            "effect": {"type": 'say "#1" \x1b[31m\\', "recovery": "manual"},
        },
    ],
    "edges": [{"from": "end", "switch": {"on": "$.x", "cases": {'"|]\\': "subgraph"}}}],
    "mounts": [],
    "settings": None,
}


@pytest.fixture(scope="module")
def monitor() -> DefinitionSnapshot:
    file = BUILTINS["monitor"].file
    children = FoundChildren(DISK_SOURCES, Path("/nowhere"), Path("/nowhere"))
    compiled = compile_definition(load_file(file, source_identity(file)[0]), children, file)
    return DefinitionSnapshot.parse(compiled.snapshot())


def test_text_has_every_node_with_its_ways_and_what_is_included_indented(
    monitor: DefinitionSnapshot,
) -> None:
    assert draw_text(monitor) == MONITOR


def test_mermaid_has_a_box_per_node_an_arrow_per_way_and_a_group_per_mount(
    monitor: DefinitionSnapshot,
) -> None:
    lines = draw_mermaid(monitor).splitlines()
    assert lines[0] == "flowchart TD"
    assert sum(bool(re.match(r"\s+n\d+(\[|\(\[)", line)) for line in lines) == len(monitor.nodes)
    assert sum("-->" in line for line in lines) == 12
    assert '  subgraph m1["pause: wait"]' in lines
    assert '  n3 -->|"timed_out"| n6' in lines


def test_dot_has_the_same_and_graphviz_reads_it(monitor: DefinitionSnapshot) -> None:
    text = draw_dot(monitor)
    assert text.count("->") == 12
    assert "  subgraph cluster_1 {" in text.splitlines()
    assert text.count("{") == text.count("}")
    for drawn in (text, draw_dot(DefinitionSnapshot.parse(HOSTILE))):
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tplain"], input=drawn, text=True, check=True)


def test_names_that_mean_something_to_a_drawing_language_are_only_labels() -> None:
    graph = DefinitionSnapshot.parse(HOSTILE)
    mermaid, dot = draw_mermaid(graph), draw_dot(graph)
    assert '  n2["subgraph: action, manual say #quot;#35;1#quot; [31m\\"]' in mermaid.splitlines()
    assert '|"#quot;|]\\"|' in mermaid
    assert 'digraph "a \\"name\\"" {' in dot
    assert '[label="\\"|]\\\\"];' in dot
    assert "\x1b" not in mermaid + dot + draw_text(graph)


def test_nodes_are_in_the_order_in_which_they_can_be_reached(monitor: DefinitionSnapshot) -> None:
    assert in_order(monitor)[:4] == ["begin", "check", "report", "pause"]
    assert sorted(in_order(monitor)) == sorted(monitor.nodes)


def test_a_way_out_of_a_mount_is_named_as_its_author_writes_it() -> None:
    assert shown_node("ends/__piw_exit_fixed") == "ends.fixed"
    assert shown_node("a/b/__piw_exit_c") == "a/b.c"
    assert shown_node("a/b") == "a/b"
