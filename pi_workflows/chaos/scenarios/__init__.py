"""The scenarios that ship: what the core is held to, and examples of how one is written.

Every scenario that a module of this folder binds is found by its name; nothing else lists them.
"""
