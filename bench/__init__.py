"""What Flyball costs, measured beside a limit or a peer in the same run. Nothing of it is a test."""
