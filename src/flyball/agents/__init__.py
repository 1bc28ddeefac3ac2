"""Agents: the adapters, and the processes they run in."""
