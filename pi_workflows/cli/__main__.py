"""Makes `python -m pi_workflows.cli` the same as `pi-workflows`."""

from pi_workflows.cli.entry import main

main()
