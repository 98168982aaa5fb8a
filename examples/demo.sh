#!/bin/sh
# Writes the release report about this repository, shows the steps of the run and where it is.
# Needs no terminal. A server that was already running is left running; one that was started for
# the demo is stopped again.
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

# Prints one member of the JSON object on standard input.
member() {
    .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

echo "== pi-workflows run examples/release_report.workflow.py"
started=$("$command" run examples/release_report.workflow.py --detach --json \
    --input '{"target_commits": 40, "page_commits": 8}')
run=$(printf '%s' "$started" | member runId)
report=$("$command" watch "$run")
echo "== the report; more about the run: $command show $run"
printf '%s' "$report" | member path
