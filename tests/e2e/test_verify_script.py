"""`tools/verify-certificate`: what CI says of a certificate, without Flyball."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, Place

from flyball.evidence.certificate import write
from flyball.journal.records import load_or_create

SCRIPT = Path(__file__).parents[2] / "tools" / "verify-certificate"


@pytest.fixture
def certified(place: Place) -> tuple[Path, str]:
    """A certificate and the key that signed it."""
    done = place.run(place.script(planner=[{"say": "plan"}], coder=[{"write": {"calc.py": FIXED}}]))
    assert done.code == 0, done.out
    file = place.folder / "certificate.json"
    verdict = place.fb("verify", "@last", "--export", str(file), "--json").json
    return file, verdict["key"]


def checked(place: Place, file: Path, key: str, commit: str) -> tuple[int, str]:
    words = [sys.executable, "-I", str(SCRIPT), "--key", key, "--commit", commit, str(file)]
    done = subprocess.run(words, cwd=place.repo, env=place.env, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_only_the_certified_commit_under_the_trusted_key_is_good(
    place: Place, certified: tuple[Path, str]
) -> None:
    file, key = certified
    branch = f"flyball/{place.last()['run']}"
    code, said = checked(place, file, key, branch)
    assert code == 0 and said.startswith("good: Commit ") and "grep -q" in said
    assert checked(place, file, key, "HEAD")[0] == 1, "another commit"
    other = load_or_create(place.folder / "other").public_key_hex
    for wrong in (other, "00" * 32, "ff" * 32, key[:-2]):
        assert checked(place, file, wrong, branch)[0] == 1, wrong
    assert checked(place, file, "no hex", branch)[0] == 2
    assert checked(place, file, key, "nosuch")[0] == 2
    assert checked(place, place.folder / "missing", key, branch)[0] == 2
    (place.folder / "part").write_bytes(file.read_bytes()[:300])
    code, said = checked(place, place.folder / "part", key, branch)
    assert code == 2 and said.endswith("part is not a certificate, or only a part of one.\n")

    envelope: dict[str, Any] = json.loads(file.read_bytes())
    payload = base64.b64decode(envelope["payload"])
    body = json.loads(payload)
    lies = [
        (
            {
                **envelope,
                "payload": base64.b64encode(payload.replace(b'"proven":true', b'"proven":null')).decode(),
            },
            1,
        ),
        ({**envelope, "payload": base64.b64encode(json.dumps(body).encode()).decode()}, 1),
        ({**envelope, "payloadType": "text/plain"}, 1),
        ({**envelope, "signatures": []}, 2),
        ({**envelope, "signatures": [{"keyid": key, "sig": "00" * 64}]}, 1),
        ([], 2),
    ]
    for lie, code in lies:
        (place.folder / "lie.json").write_text(json.dumps(lie))
        assert checked(place, place.folder / "lie.json", key, branch)[0] == code, lie


def test_what_the_signer_did_not_prove_is_bad(place: Place, certified: tuple[Path, str]) -> None:
    """Signed statements that say themselves that nothing was proved."""
    file, key = certified
    branch = f"flyball/{place.last()['run']}"
    body = json.loads(base64.b64decode(json.loads(file.read_bytes())["payload"]))
    signer = load_or_create(place.state)
    said = body["predicate"]
    failed = [{**proof, "exit": 1} for proof in said["proofs"]]
    for change in ({"proven": False}, {"proofs": []}, {"proofs": failed}):
        write(place.folder / "signed.json", {**body, "predicate": {**said, **change}}, signer)
        assert checked(place, place.folder / "signed.json", key, branch)[0] == 1, change
    write(place.folder / "signed.json", {**body, "predicateType": "other"}, signer)
    assert checked(place, place.folder / "signed.json", key, branch)[0] == 2
