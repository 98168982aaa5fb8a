"""A machine in one trio loop: processes, streams, files, clocks and chance, all from one seed."""
