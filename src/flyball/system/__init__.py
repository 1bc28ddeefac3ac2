"""What `flyball up` adds to runs: lanes, sources of tasks, consistency checks, disk space and health."""
