"""Whose fault it is, by class; what to do, in the message.

    FlyballError                 every error of ours; exit code 2 unless told otherwise
    ├── UserError                the caller gave us something we cannot use: fix the input
    │   ├── ConfigError          a file, an option or an environment variable is wrong
    │   ├── MachineFault         a machine's table has a fault
    │   ├── NotFound             no such run, question, machine or agent       (ALO_LOOP_NOT_FOUND)
    │   ├── AlreadyRunning       another process drives this run               (ALO_LOOP_ALREADY_RUNNING)
    │   ├── NotPaused            the run has ended, there is nothing to resume (ALO_LOOP_NOT_PAUSED)
    │   └── Untrusted            a tracked file wants to run or loosen something; a person must say yes
    ├── InvalidTransition        the machine has no such edge; nothing changed (ALO_INVALID_TRANSITION)
    ├── JournalError             the journal cannot be read or written
    │   ├── Conflict             the run moved on meanwhile: someone else appended
    │   ├── Fenced               a newer driver holds the run's lease
    │   └── Corrupt              what is stored is not what was written
    ├── WorkspaceError           git or the file system refused
    │   └── LandConflict         the branch does not merge cleanly into its target
    └── AgentError               the agent cannot be started or understood
        └── AgentMissing         it is not installed

A message is one sentence or two: what is wrong, with what, and what to do about it.
"""


class FlyballError(Exception):
    """Something went wrong; the message says what to do."""

    exit_code = 2

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").split("\n")[0])


class UserError(FlyballError):
    """The input cannot be used."""


class ConfigError(UserError):
    """The configuration cannot be used."""


class MachineFault(UserError):
    """The machine has a fault."""


class NotFound(UserError):
    """There is no such thing."""


class AlreadyRunning(UserError):
    """Another process drives this run."""


class NotPaused(UserError):
    """The run has ended; `flyball retry` starts a new one from its tree."""


class Untrusted(UserError):
    """A tracked file wants to run a program or loosen a rule; look at it and say `flyball trust`."""


class InvalidTransition(FlyballError):
    """The machine has no such transition."""

    def __init__(self, machine: str, source: str, target: str) -> None:
        super().__init__(
            f"'{machine}' has no transition from '{source}' to '{target}'; nothing was changed. "
            f"See `flyball machines show {machine}`."
        )
        self.source, self.target = source, target


class JournalError(FlyballError):
    """The journal cannot be read or written."""


class Conflict(JournalError):
    """The run moved on meanwhile."""


class Fenced(JournalError):
    """A newer driver holds this run."""


class Corrupt(JournalError):
    """The journal does not hold what was written."""


class WorkspaceError(FlyballError):
    """Git or the file system refused."""


class LandConflict(WorkspaceError):
    """The branch does not merge cleanly into its target."""


class AgentError(FlyballError):
    """The agent cannot be started."""


class AgentMissing(AgentError):
    """The agent is not installed."""


class Gone(FlyballError):
    """Something that acts stand on is not there any more; no act is done without it."""
