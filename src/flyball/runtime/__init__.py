"""What drives runs: the supervisor loop, drivers, starting a run, and the App that puts it together."""
