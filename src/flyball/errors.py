"""The errors of Flyball. The class says whose fault it is; the message says what to do.

    FlyballError                 every error of Flyball; exit code 2
    ├── UserError                the input cannot be used; fix the input
    │   ├── ConfigError          a file, an option or an environment variable is wrong
    │   ├── MachineFault         a machine file has a fault
    │   ├── NotFound             no such run, question, machine or agent       (ALO_LOOP_NOT_FOUND)
    │   ├── AlreadyRunning       another process runs this run                 (ALO_LOOP_ALREADY_RUNNING)
    │   ├── NotPaused            the run has ended and cannot be resumed       (ALO_LOOP_NOT_PAUSED)
    │   ├── Untrusted            a tracked file needs `flyball trust` first
    │   └── ForgeError           GitHub refuses, or does not answer
    ├── InvalidTransition        the machine has no such edge; nothing changed (ALO_INVALID_TRANSITION)
    ├── JournalError             the journal cannot be read or written
    │   ├── Conflict             the run changed in the meantime
    │   ├── Fenced               another process has taken the run over
    │   └── Corrupt              the stored data was changed or damaged
    ├── WorkspaceError           git or the file system failed
    │   └── LandConflict         the branch does not merge cleanly
    ├── AgentError               the agent cannot be started or understood
    │   └── AgentMissing         the agent is not installed
    └── Gone                     something that a run needs is missing

A message has one or two sentences: what is wrong, and what to do about it.
"""


def reason(problem: OSError | UnicodeDecodeError) -> str:
    """Why a file could not be read, for a message that names the file itself."""
    return (
        "it is not UTF-8 text"
        if isinstance(problem, UnicodeDecodeError)
        else problem.strerror or str(problem)
    )


class FlyballError(Exception):
    """Something went wrong."""

    exit_code = 2

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").split("\n")[0])


class UserError(FlyballError):
    """The input cannot be used."""


class ConfigError(UserError):
    """The configuration cannot be used."""


class MachineFault(UserError):
    """The machine file has a fault."""


class NotFound(UserError):
    """There is no such run, question, machine or agent."""


class AlreadyRunning(UserError):
    """Another process is running this run."""


class NotPaused(UserError):
    """The run has ended. Start a new one from its files with `flyball retry`."""


class Untrusted(UserError):
    """A tracked file runs a program or relaxes a rule. Review it, then run `flyball trust`."""


class ForgeError(UserError):
    """GitHub refuses, or does not answer."""

    def __init__(self, message: str | None = None, code: int = 0) -> None:
        super().__init__(message)
        self.code = code  # HTTP's; 0: there was no answer


class InvalidTransition(FlyballError):
    """The machine has no such transition."""

    def __init__(self, machine: str, source: str, target: str) -> None:
        super().__init__(
            f"Machine '{machine}' has no transition from '{source}' to '{target}'. Nothing was changed. "
            f"See `flyball machines show {machine}`."
        )
        self.source, self.target = source, target


class JournalError(FlyballError):
    """The journal cannot be read or written."""


class Conflict(JournalError):
    """The run changed in the meantime."""


class Fenced(JournalError):
    """Another process has taken this run over."""


class Corrupt(JournalError):
    """The journal was changed or damaged."""


class WorkspaceError(FlyballError):
    """Git or the file system failed."""


class TooDeep(WorkspaceError):
    """Folders are nested deeper than a path can name."""


class LandConflict(WorkspaceError):
    """The branch does not merge cleanly."""


class AgentError(FlyballError):
    """The agent cannot be started."""


class AgentMissing(AgentError):
    """The agent is not installed."""


class Gone(FlyballError):
    """Something that the run needs is missing: its checkout, its repository or its folder."""
