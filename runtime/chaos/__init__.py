"""The machinery of the chaos harness, free of workflows: choices, faults, orders, reports."""
