"""The child process of one run: verify the source, run one node at a time, propose transitions."""
