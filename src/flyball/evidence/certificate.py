"""The completion certificate: what was proved, of which tree, under which rules, signed so that it can be checked offline.

It is an in-toto statement: its subject is the tree and the commit; its predicate holds the proofs with exit codes
and log hashes, the rulings, the review, the sandbox and the journal's head.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.errors import UserError
from flyball.journal import Journal
from flyball.journal.records import Signer, verify
from flyball.state.run import Run
from flyball.state_dir import RunDir, sha256_of, write_whole
from flyball.views.text import agent_name

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://flyball.dev/completion/v1"
REVIEWING = ("critic", "quality", "reviewer")
PAYLOAD = "application/vnd.in-toto+json"


class GateEvidence(e.Evidence, frozen=True, kw_only=True, omit_defaults=True):
    """What the gate found out about the proof, and who said yes to its doubts."""

    accepted_by: str = ""


class Story(msgspec.Struct, frozen=True):
    """What the journal adds to the fold: every ruling of the run and of those below it, and what a reviewer said."""

    rulings: tuple[dict[str, Any], ...] = ()
    review: str = ""
    evidence: GateEvidence = GateEvidence()


def story(journal: Journal, run: Run, act: e.Act) -> Story:
    """Up to the act that makes the certificate, so that who is asked again after a crash says the same again."""
    rulings: list[dict[str, Any]] = []
    review, evidence = "", GateEvidence()
    for run_id in [row.run for row in reversed(journal.rows(root=run.id))]:
        judging: e.Act | None = None
        for entry in journal.read(run_id):
            match e.decode(entry.body):
                case e.Ruled(ruling=ruling):
                    rulings.append({"run": run_id, **msgspec.to_builtins(ruling)})
                case e.ActStarted(act=act_) if act_.key == act.key:
                    break
                case e.ActStarted(act=act_):
                    judging = act_ if act_.do.removeprefix("agent:") in REVIEWING else None
                case e.ActFinished(result=e.TurnEnded() as turn) if judging and judging.tree == act.tree:
                    review = _verdict(judging, turn) or review
                case e.ActFinished(result=e.ProofEnded(evidence=e.Evidence() as examined)) if (
                    run_id == run.id
                ):
                    evidence = GateEvidence(**msgspec.structs.asdict(examined))
                case e.Answered(verb="approve") as answer if evidence.doubts and not evidence.accepted_by:
                    evidence = replace(evidence, accepted_by=answer.who or "a person")
                case _:
                    pass
    return Story(tuple(rulings), review, evidence)


def _verdict(judging: e.Act, turn: e.TurnEnded) -> str:
    verdict, role = turn.claim.signal or turn.claim.outcome, judging.do.removeprefix("agent:")
    return f"{verdict} by {role} {agent_name(judging.agent)}" if verdict else ""


def statement(
    run: Run, act: e.Act, commit: str, project: str, story: Story, pull_request: str = ""
) -> dict[str, Any]:
    proof = run.evidence.proof
    ruling = run.evidence.ruling
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": f"{project}:tree", "digest": {"gitTree": act.tree}},
            {"name": f"{project}:commit", "digest": {"gitCommit": commit}},
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "run": run.id,
            "machine": run.machine.name,
            "machine_digest": run.machine.digest,
            "task": run.began.task,
            "base": {"gitTree": run.checkout.base_tree, "gitCommit": run.began.commit},
            "proven": bool(run.settings.proof),
            "proofs": [msgspec.to_builtins(command) for command in (proof.commands if proof else ())],
            "evidence": msgspec.to_builtins(story.evidence),
            "baseline_failing": run.evidence.baseline,
            "rulings": list(story.rulings),
            "policy": {
                "name": run.settings.policy,
                "hash": ruling.policy_hash if ruling else run.settings.policy_hash,
            },
            "waived": list(run.evidence.waivers),
            "review": story.review,
            "sandbox": run.checkout.sandbox or "unsandboxed",
            **({"pull_request": pull_request} if pull_request else {}),
            "journal_head": act.head,
            "turns": run.turns,
            "cost_uusd": run.spent.cost_uusd,
            "version": run.began.version,
        },
    }


def write(path: Path, body: dict[str, Any], signer: Signer) -> str:
    """A DSSE envelope; its sha256 is what the journal names."""
    payload = msgspec.json.encode(body, order="deterministic")
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": signer.public_key_hex, "sig": signer.sign(_signed(payload))}],
    }
    data = msgspec.json.encode(envelope, order="deterministic")
    write_whole(path, data)
    return hashlib.sha256(data).hexdigest()


def in_force(folder: RunDir, digest: str) -> Path:
    """The certificate that the journal names: after a landing, until the run is tidied up, it is the next one."""
    following = folder.next_certificate
    return following if sha256_of(following) == digest else folder.certificate


def settle(folder: RunDir, digest: str) -> None:
    """The certificate in force gets its usual name."""
    file = in_force(folder, digest)
    if file != folder.certificate:
        file.replace(folder.certificate)


def _signed(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


class Checked(msgspec.Struct, frozen=True):
    good: bool
    reason: str
    statement: dict[str, Any]
    key: str


def check(data: bytes, trusted_key: str = "") -> Checked:
    """Whether a certificate is whole and signed (by the key given, if one is)."""
    try:
        envelope = msgspec.json.decode(data)
        payload = base64.b64decode(envelope["payload"], validate=True)
        signature = envelope["signatures"][0]
        body = msgspec.json.decode(payload, type=dict[str, Any])
        key, sig, kind = str(signature["keyid"]), str(signature["sig"]), envelope["payloadType"]
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, ValueError) as broken:
        raise UserError(
            f"This is not a Flyball certificate ({broken}). Give a run or a certificate file."
        ) from None
    if kind != PAYLOAD or not verify(key, _signed(payload), sig):
        return Checked(False, "its signature does not match its contents", body, key)
    if trusted_key and key != trusted_key:
        return Checked(False, f"it was signed with another key ({key[:16]}…)", body, key)
    return Checked(True, "", body, key)
