"""The built wheel holds everything that Flyball needs: installed alone into a fresh environment, it repairs the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


def run(*words: str | Path, **env: str) -> str:
    known = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    done = subprocess.run(
        [*map(str, words)], cwd="/", env={**known, **env}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (file,) = folder.glob("flyball-*.whl")
    return file


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    tracked = subprocess.run(
        ("git", "ls-files", "src"), cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if not tracked:
        pytest.skip("this is not a git checkout, so there is no list of files to compare with")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert [
        name for name in tracked if name.removeprefix("src/") not in inside and (ROOT / name).exists()
    ] == []
    assert not [name for name in inside if name.startswith(("tests", "tools", "bench"))]


@pytest.mark.sampled(0)
def test_the_installed_wheel_repairs_the_demo(wheel: Path, tmp_path: Path) -> None:
    """The dependencies are those of this environment, so that nothing is downloaded; the program is the wheel's."""
    place = tmp_path / "fresh"
    venv.create(place, with_pip=False)
    fresh = place / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", fresh, "install", *options, wheel)
    (site,) = (place / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(fresh, "-P", "-c", "import flyball; print(flyball.__file__)").strip()
    assert Path(where).is_relative_to(place)
    state = str(tmp_path / "state")
    assert "Flyball" in run(place / "bin/flyball", "doctor", FLYBALL_STATE_DIR=state)
    said = run(place / "bin/flyball", "demo", "--no-keep", TMPDIR=str(tmp_path))
    assert "proof passed" in said and "Merged run" in said
