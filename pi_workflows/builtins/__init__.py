"""The workflows that come with the package, each a file as an author would write it."""
