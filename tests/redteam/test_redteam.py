"""No scripted agent gets out, and nothing outside its checkout is changed."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.redteam.siege import Siege, table

from flyball.agents.sandbox import probe

ATTACKS = table()
PARTS, SEED = 3, 20_260
KINDS = ("bwrap", "landlock")


@pytest.fixture
def room(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Outside /tmp, which is private inside the sandbox: there nothing would need to be out of reach."""
    places = (request.config.cache.mkdir("redteam"), Path.home())  # type: ignore[union-attr]
    roomy = [place.resolve() for place in places if place.resolve().parts[1] not in ("tmp", "var", "run")]
    if not roomy:
        pytest.skip("no folder outside /tmp to try it in")
    room = Path(tempfile.mkdtemp(prefix="siege-", dir=roomy[0]))
    yield room
    shutil.rmtree(room)


def test_there_are_many_and_each_has_its_own_name() -> None:
    assert len(ATTACKS) >= 60 and len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("sandbox", KINDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_way_out_is_closed(room: Path, part: int, sandbox: str, request: pytest.FixtureRequest) -> None:
    found = probe(sandbox)
    if found.kind != sandbox:
        pytest.skip(found.why)
    siege = Siege(room, sandbox)
    files, size = str(request.config.getoption("--flood")).split(",")
    siege.places |= {"files": files, "bytes": size}
    count = min(len(ATTACKS), int(request.config.getoption("--attacks")))
    chosen = sorted(random.Random(SEED).sample(range(len(ATTACKS)), count))
    attacks, before = [ATTACKS[n] for n in chosen[part::PARTS]], siege.fingerprint()
    seen = siege.play(attacks)
    ends = {a.name: (seen[a.name].ended, a.end_in(sandbox)) for a in attacks}
    assert {name: pair for name, pair in ends.items() if pair[0] != pair[1]} == {}
    silent = [a.name for a in attacks if a.reports and a.reports not in seen[a.name].turn]
    assert silent == []
    assert siege.fingerprint() == before
    late = set((siege.yard.state / "runs" / siege.run / "checkout").glob("late*"))
    assert {path.name for path in late} <= {"late2.txt" for a in attacks if a.end_in(sandbox) == "stands"}
