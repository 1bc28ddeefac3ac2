"""What agents, test runners and tools wrote, read into claims, counts and fingerprints. Pure."""
