"""Hooks of agents: every tool call passes the guard before it runs (GUARD-2).

    cli_settings    how each CLI is told to call our hook
    program         what the CLI starts: asks the driver, else judges by itself, else denies
    server          the driver's side: judges, and records every call, verdict and result
    without_driver  the verdict when no driver answers
    brief           what the verdict is based on, pinned by its hash
    payload         what the CLIs send and how each wants to be answered
    tools           what each tool does
    tool_calls      the verdict on a tool call
    real_paths      where a path of the agent leads
    question        what a person is asked, and which calls cannot be asked about
    action_log      the record of an act's tool calls

Nothing is imported here: `program` is started anew for every tool call.
"""
