"""The `pi-workflows` command; a command imports only what it needs."""
