"""A pull request in words: what was to be done, and what was proved."""

from __future__ import annotations

from flyball.domain import events as e
from flyball.state.run import Run
from flyball.views.evidence_text import evidence_lines
from flyball.views.text import clean

TITLE_MOST = 72
TASK_MOST = 5_000


def title(run: Run) -> str:
    lines = clean(run.began.task).strip().splitlines() or ["Work done"]
    return lines[0][:TITLE_MOST]


def body(run: Run, commit: e.CommitEnded) -> str:
    lines = [clean(run.began.task).strip()[:TASK_MOST], "", *_proved(run), ""]
    lines.append(
        f"Commit `{commit.commit}`, tree `{commit.tree}`, certificate `sha256:{commit.certificate}`."
    )
    lines.append(f"Run `{run.id}`: `flyball verify {run.id}` checks the certificate.")
    return "\n".join(lines) + "\n"


def _proved(run: Run) -> list[str]:
    proof = run.evidence.proof
    if proof is None or not run.settings.proof:
        return ["**Not proved**: no proof command is configured."]
    commands = [f"- `{clean(one.command)}` exited {one.exit}" for one in proof.commands]
    more = [f"- {line}" for line in evidence_lines(proof.evidence)]
    return ["Proved on exactly this tree:", "", *commands, *more]
