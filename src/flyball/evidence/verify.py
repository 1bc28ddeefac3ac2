"""Whether a certificate holds: its signature, its journal, its tree and commit. Works offline; only reads.

good    everything that it says is true, and the branch is where it was
stale   it was true, but the branch has moved since
bad     something is not as it says
none    there is no certificate, for the reason given
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from flyball.errors import Corrupt, UserError, WorkspaceError
from flyball.evidence import certificate, consistency
from flyball.journal.records import Records
from flyball.state.run import Run
from flyball.views.evidence_text import evidence_lines
from flyball.views.text import first_line
from flyball.workspace.git import Git, reading_user, text
from flyball.workspace.repo import user_git

LARGEST = 16 << 20


class ProofRecord(Struct, frozen=True):
    """A proof command, as recorded in the certificate."""

    command: str
    exit: int
    log: str = ""


class Rules(Struct, frozen=True):
    name: str = ""
    hash: str = ""


class CertificateText(Struct, frozen=True):
    """What a certificate says besides its subject."""

    run: str
    task: str = ""
    proven: bool = False
    proofs: tuple[ProofRecord, ...] = ()
    evidence: certificate.GateEvidence = certificate.GateEvidence()
    rulings: tuple[dict[str, Any], ...] = ()
    policy: Rules = Rules()
    waived: tuple[str, ...] = ()
    review: str = ""
    sandbox: str = ""
    journal_head: str = ""


class Subject(Struct, frozen=True):
    name: str
    digest: dict[str, str]


class Statement(Struct, frozen=True):
    subject: tuple[Subject, ...]
    predicate: CertificateText
    predicate_type: Literal["https://flyball.dev/completion/v1"] = field(name="predicateType")

    @property
    def tree(self) -> str:
        return self._digest("gitTree")

    @property
    def commit(self) -> str:
        return self._digest("gitCommit")

    def _digest(self, kind: str) -> str:
        return next((subject.digest[kind] for subject in self.subject if kind in subject.digest), "")


class Finding(Struct, frozen=True):
    """`word` is good, stale, bad or none; `reason` says why as a sentence."""

    word: str
    reason: str
    file: str = ""
    run: str = ""
    statement: Statement | None = None
    key: str = ""
    ours: bool = False
    events: int = 0


# ---- a run ----------------------------------------------------------------------------------------------


def verify_run(records: Records, run_id: str) -> Finding:
    """The journal is checked first: a certificate is only compared with an intact history."""
    wrong = [one for one in consistency.grave(records, run_id) if one.kind != "certificate"]
    if wrong:
        fault = min(
            wrong, key=lambda one: one.run != run_id
        )  # faults of the run itself before those of the registry
        return Finding("bad", fault.message, run=run_id)
    try:
        run = records.read(run_id)
    except Corrupt as broken:
        return Finding("bad", str(broken), run=run_id)
    if why := _without(run):
        return Finding("none", why, run=run_id)
    file = certificate.in_force(records.dirs.run(run_id), run.checkout.certificate)
    return _verified(records, run, file, read(file), records.signer.public_key_hex)


def _without(run: Run) -> str:
    """Why a run has no certificate; "" if it has one."""
    if run.checkout.certificate:
        return ""
    if not run.owner:
        return f"Run {run.id} works in the checkout of {run.began.root}, which has the certificate. Verify that run."
    if run.status != "ended":
        return f"Run {run.id} has no certificate yet: it has not ended ({run.status} in '{run.state}')."
    code = run.stop.code if run.stop else run.end
    return f"Run {run.id} has no certificate: it ended without success ({code})."


def read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as problem:
        raise UserError(
            f"The certificate {file} cannot be read: {problem.strerror}. Check the path."
        ) from None
    if len(data) > LARGEST:
        raise UserError(f"{file} is too large for a certificate. Give a run or a certificate file.")
    return data


def checked(data: bytes, key: str = "") -> tuple[certificate.Checked, Statement]:
    """The certificate and what it says; a UserError if it is not a certificate."""
    seal = certificate.check(data, key)
    try:
        return seal, msgspec.convert(seal.statement, Statement)
    except msgspec.ValidationError as broken:
        raise UserError(
            f"This is not a Flyball certificate ({broken}). Give a run or a certificate file."
        ) from None


def _verified(records: Records, run: Run, file: Path, data: bytes, key: str) -> Finding:
    seal, claims = checked(data, key)

    def finding_of(word: str, reason: str, events: int = 0) -> Finding:
        return Finding(word, reason, str(file), run.id, claims, seal.key, seal.key == key, events)

    if not seal.good:
        return finding_of("bad", f"The certificate is not valid: {seal.reason}.")
    if wrong := next(_disagreements(run, claims, data), ""):
        return finding_of("bad", wrong)
    try:
        events = _walk(records, run, claims.predicate.journal_head)
    except (Corrupt, UserError) as broken:
        return finding_of("bad", str(broken))
    return finding_of(*_against_git(run, claims), events)


def _disagreements(run: Run, claims: Statement, data: bytes) -> Iterator[str]:
    """Where certificate and journal say different things."""
    commit = run.checkout.commit
    if commit is None or claims.predicate.run != run.id:
        yield f"The certificate belongs to another run than {run.id}."
        return
    if hashlib.sha256(data).hexdigest() != run.checkout.certificate:
        yield f"The file is not the one that the journal of run {run.id} names (sha256 {run.checkout.certificate[:16]}…)."
    if claims.tree != commit.tree:
        yield f"The certificate is of another tree than the run's ({commit.tree[:12]})."
    if claims.commit != commit.commit:
        yield f"The certificate is of another commit than the run's ({commit.commit[:12]})."
    yield from _unproved(claims)


def _unproved(claims: Statement) -> Iterator[str]:
    if not claims.predicate.proven:
        return
    if not claims.predicate.proofs:
        yield "The certificate says that the tree is proven, but lists no proof."
    no_worse = claims.predicate.evidence.require == "no-worse"
    for proof in claims.predicate.proofs:
        if proof.exit != 0 and not no_worse:
            yield f"The certificate says that the tree is proven, but '{proof.command}' ended with exit code {proof.exit}."


def _walk(records: Records, run: Run, head: str) -> int:
    """Read the whole chain of the run, which must contain the head that the certificate names; returns the number
    of events.
    """
    count, passed_head = 0, False
    for entry in records.journal.read(run.id):
        count, passed_head = entry.seq, passed_head or entry.hash == head
    if cut := records.heads.rolled_back(run.id, records.journal):
        raise UserError(cut.message)
    if not passed_head:
        raise UserError(f"The journal of run {run.id} does not have the events that the certificate names.")
    return count


# ---- git ------------------------------------------------------------------------------------------------


def _against_git(run: Run, claims: Statement) -> tuple[str, str]:
    try:
        return _compared(user_git(_git_dir(Path(run.began.repo))), claims, run.id)
    except WorkspaceError as problem:
        return "stale", f"Cannot compare with the repository: {problem}"


def _git_dir(root: Path) -> Path:
    if not root.is_dir():
        raise WorkspaceError(f"{root} no longer exists.")
    return Path(text(reading_user(root, "rev-parse", "--absolute-git-dir").out).rstrip("\n"))


def _compared(git: Git, claims: Statement, run_id: str) -> tuple[str, str]:
    commit, branch = claims.commit, f"flyball/{run_id}"
    tree = git.line("rev-parse", "-q", "--verify", f"{commit}^{{tree}}", ok=(0, 1, 128))
    if tree and tree != claims.tree:
        return "bad", f"Commit {commit[:12]} holds another tree than the certificate says."
    now = git.line("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}", ok=(0, 1, 128))
    if now == commit:
        return "good", f"The branch {branch} is at the certified commit {commit[:12]}."
    if now:
        return "stale", f"The branch {branch} has moved to {now[:12]}; {commit[:12]} is what was certified."
    if tree and git.line("for-each-ref", f"--contains={commit}", "--count=1", "refs/heads", ok=(0, 128, 129)):
        return "good", f"The branch {branch} was deleted; the certified commit {commit[:12]} is merged."
    return (
        "stale",
        f"The branch {branch} was deleted, and no other branch has the certified commit {commit[:12]}.",
    )


# ---- a file ---------------------------------------------------------------------------------------------


def verify_file(records: Records, file: Path, trusted_key: str, repo: Path | None) -> Finding:
    """A certificate from anywhere: checked with our own key and journal if it is ours, else with the key given."""
    data = read(file)
    seal, claims = checked(data)
    ours, run_id = _our_key(records), claims.predicate.run
    if seal.key == ours and records.dirs.journal.exists() and records.journal.row(run_id):
        return _verified(records, records.read(run_id), file, data, ours)
    word, reason = _foreign(seal, claims, trusted_key or ours, repo)
    return Finding(word, reason, str(file), run_id, claims, seal.key, seal.key == ours)


def _our_key(records: Records) -> str:
    """The existing key; no key is created."""
    return records.signer.public_key_hex if records.has_key else ""


def _foreign(seal: certificate.Checked, claims: Statement, key: str, repo: Path | None) -> tuple[str, str]:
    if not seal.good:
        return "bad", f"The certificate is not valid: {seal.reason}."
    if seal.key != key:
        return "bad", (
            f"The signature is valid, but the key {seal.key[:16]}… is not one you trust: "
            f"ask its owner, then pass it with --key {seal.key}."
        )
    if wrong := next(_unproved(claims), ""):
        return "bad", wrong
    if repo is None:
        return "good", "The signature is valid. There is no repository here to compare it with."
    return _compared(user_git(_git_dir(repo)), claims, claims.predicate.run)


# ---- for people --------------------------------------------------------------------------------------------


def facts_of(finding: Finding) -> dict[str, Any]:
    statement = finding.statement
    return {
        "verdict": finding.word,
        "reason": finding.reason,
        "run": finding.run or None,
        "file": finding.file or None,
        "tree": statement.tree if statement else None,
        "commit": statement.commit if statement else None,
        "proven": statement.predicate.proven if statement else None,
        "key": finding.key or None,
        "ours": finding.ours,
        "says": statement.predicate if statement else None,
    }


def lines_of(finding: Finding) -> Iterator[str]:
    statement = finding.statement
    unproven = finding.word == "good" and statement and not statement.predicate.proven
    word = "good, but unproven" if unproven else finding.word
    yield finding.reason if finding.word == "none" else f"{word}: {finding.reason}"
    if not statement:
        return
    claims = statement.predicate
    yield f"  run      {claims.run}"
    yield f"  task     {first_line(claims.task, 80)}"
    yield f"  commit   {statement.commit[:12]} (tree {statement.tree[:12]})"
    yield from (f"  proof    {line}" for line in _proofs(claims))
    for number, line in enumerate(evidence_lines(claims.evidence, claims.evidence.accepted_by)):
        yield f"  {'' if number else 'tests':<8} {line}"
    yield f"  guard    {_rulings(claims)}"
    yield f"  review   {claims.review or 'none'}"
    yield f"  sandbox  {claims.sandbox}"
    yield f"  signed   with {'your' if finding.ours else 'the'} key {finding.key[:16]}…"
    if finding.events:
        yield f"  journal  {finding.events} events, hash chain intact"
    yield f"  file     {finding.file}"


def _proofs(claims: CertificateText) -> Iterator[str]:
    if not claims.proven:
        yield "none: no proof command was configured"
    for proof in claims.proofs if claims.proven else ():
        yield f"{proof.command}: exit code {proof.exit}, log sha256 {proof.log[:16]}…"


def _rulings(claims: CertificateText) -> str:
    changes = [ruling for ruling in claims.rulings if not ruling.get("unchanged")]
    verdicts = Counter(str(ruling.get("verdict")) for ruling in changes)
    names = {"allow": "allowed", "ask": "asked about", "deny": "refused"}
    counts = ", ".join(f"{count} {names.get(verdict, verdict)}" for verdict, count in verdicts.items())
    waived = f", {len(claims.waived)} approved by a person" if claims.waived else ""
    policy = f"policy '{claims.policy.name}' ({claims.policy.hash[:12]})"
    return f"{f'changes: {counts}' if counts else 'no changes'}; {policy}{waived}"
