"""Hooks of agents: what an agent wants to do passes the guard before it is done (GUARD-2).

    settings   how each CLI is told to ask us
    program    what the CLI starts: it hands the question to the driver, else judges by itself, else refuses
    desk       the driver's side: judges at once, writes down every question, ruling and result
    brief      what a judge goes by, pinned by its hash
    payload    what the CLIs say and how each wants to be answered
    tools      which tool does what
    places     where a path of the agent's leads
    question   what a person is asked, and what nobody can be asked
    judge      the verdict

Nothing is imported here: `program` is started anew for every tool call.
"""
