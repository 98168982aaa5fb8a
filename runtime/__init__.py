"""Actor machinery that knows no workflows: tasks, mailboxes, processes, sockets, time."""
