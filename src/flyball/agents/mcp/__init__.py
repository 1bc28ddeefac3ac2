"""The MCP server for agents (AGENT-5): tools with which an agent reports and asks.

    forwarder    what the agent's CLI starts: passes each message to the run's driver
    protocol     the driver's side: JSON-RPC in, JSON-RPC out
    reports      the six tools, and what was said with them

Nothing here speaks for a person: an agent can claim, tell and ask.
"""
