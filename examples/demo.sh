#!/bin/sh
# Runs the release report over this repository and shows its steps. Needs no terminal.
# A server that was already running is left running; one started for the demo is stopped again.
set -eu
cd "$(dirname "$0")/.."
command=.venv/bin/pi-workflows

if "$command" server status >/dev/null 2>&1; then
    stop() { :; }
else
    stop() { "$command" server stop >/dev/null 2>&1 || true; }
fi
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "== pi-workflows run examples/release_report.workflow.py" >&2
started=$("$command" run examples/release_report.workflow.py --detach --json)
read_id='import json, sys; print(json.load(sys.stdin)["runId"])'
run=$(printf '%s' "$started" | .venv/bin/python -c "$read_id")
"$command" watch "$run"
echo "== pi-workflows show $run" >&2
"$command" show "$run"
