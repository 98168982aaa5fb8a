"""How each kind of node runs inside the child."""
