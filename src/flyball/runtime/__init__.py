"""Driving runs: the supervisor loop, drivers, starting a run, and the App that connects everything."""
