"""Agents: the adapters, and the processes in which agents run."""
