"""The whole system in one trio loop under a mock clock: one seed, one order of everything."""
