"""What `flyball up` adds to runs: lanes, where tasks come from, checks of the whole, keeping house."""
