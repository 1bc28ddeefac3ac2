"""Starting a run: every problem is found before the first event is written.

PATH and virtual environment, in which a run's commands find their programs, are pinned at its start. Tests call
programs
by name, so the project's virtual environment is active in every command, as in a developer's shell: the one that the
repository shares with its checkouts, else the one that is active when a run begins, else the one that `flyball init`
remembers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec

from flyball import __version__
from flyball.acts.run_files import require, shipped_policies
from flyball.agents.adapter import adapter
from flyball.config.elsewhere import foreign_install
from flyball.config.load import POLICY_FILE, LoadedConfig, load
from flyball.domain import events as e
from flyball.domain.machine import Machine, State
from flyball.domain.settings import Settings
from flyball.errors import AgentMissing, ConfigError, UserError, reason
from flyball.guard import policy as policies
from flyball.guard.policy_faults import looser
from flyball.reading.terminal import whole
from flyball.runtime.app import App, new_id
from flyball.state_dir import private_folder, write_whole
from flyball.workspace import Repo, inspect_repo
from flyball.workspace.git import reading_user
from flyball.workspace.repo import GIT_HOOKS, copy_hooks

PINNED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


def remember(state_dir: Path, root: Path, env: dict[str, str]) -> None:
    """Remember the active virtual environment for the runs of this repository; forget it if none is active."""
    note = _note(state_dir, root)
    active = env.get("VIRTUAL_ENV", "")
    if active and Path(active).is_dir():
        private_folder(note.parent)
        write_whole(note, msgspec.json.encode({"VIRTUAL_ENV": active}))
    else:
        note.unlink(missing_ok=True)


def pinned_environment(
    state_dir: Path, root: Path, env: dict[str, str], share: Iterable[str] = ()
) -> dict[str, str]:
    """What a new run keeps of the environment."""
    pinned = {name: env[name] for name in PINNED if env.get(name)}
    shared = virtual_env(root, share)
    return activated(pinned, shared or pinned.get("VIRTUAL_ENV") or _remembered(state_dir, root))


def virtual_env(root: Path, names: Iterable[str]) -> str:
    """The first of these folders that is a virtual environment."""
    return next((str(root / name) for name in names if (root / name / "pyvenv.cfg").is_file()), "")


def activated(env: dict[str, str], venv: str) -> dict[str, str]:
    """As the environment's own script does it."""
    if not venv or env.get("VIRTUAL_ENV") == venv:
        return env
    path = os.pathsep.join((str(Path(venv, "bin")), env.get("PATH", "")))
    return {**env, "VIRTUAL_ENV": venv, "PATH": path}


def _remembered(state_dir: Path, root: Path) -> str:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        versions = msgspec.json.decode(_note(state_dir, root).read_bytes(), type=dict[str, str])
        venv = versions.get("VIRTUAL_ENV", "")
        return venv if Path(venv, "bin").is_dir() else ""
    return ""


def _note(state_dir: Path, root: Path) -> Path:
    return state_dir / "environments" / hashlib.sha256(os.fsencode(root)).hexdigest()[:32]


# ---- environments that a project's tool keeps elsewhere ---------------------------------------------------

ASK_S = 30
POETRY, HATCH = (
    (("poetry", "env", "info", "-p"),),
    tuple(("hatch", "env", "find", name) for name in ("hatch-test", "test", "")),
)
TOOLS = (  # a file of the project, what in it shows that the tool is used, and the questions to the tool
    ("poetry.lock", "", POETRY),
    ("Pipfile", "", (("pipenv", "--venv"),)),
    ("hatch.toml", "", HATCH),
    ("pyproject.toml", "[tool.poetry", POETRY),
    ("pyproject.toml", "[tool.hatch.envs", HATCH),
)


def kept_elsewhere(folder: Path, env: dict[str, str]) -> str:
    """The virtual environment that poetry, pipenv or hatch made for this project; "" if there is none."""
    for file, mark, questions in TOOLS:
        if mark in _text(folder / file) and (folder / file).is_file():
            for words in questions:
                if venv := _answer(folder, words, env):
                    return venv
    return ""


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _answer(folder: Path, words: tuple[str, ...], env: dict[str, str]) -> str:
    """The tool's answer, if it names an environment that is there."""
    program = shutil.which(words[0], path=env.get("PATH", ""))
    if program is None:
        return ""
    argv = [program, *(word for word in words[1:] if word)]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        process = subprocess.run(
            argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S
        )
        lines = process.stdout.decode("utf-8", "replace").splitlines()
        return next(
            (line for line in map(str.strip, lines) if line and Path(line, "pyvenv.cfg").is_file()), ""
        )
    return ""


TASK_MOST = 100_000
STANDING = "waits for tasks. Start it with `flyball up`, or use build, loop, review or task here."


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `flyball run` was asked for."""

    task: str
    repo: Path
    machine: str = ""
    agents: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    breakpoints: tuple[str, ...] = ()
    pass_env: tuple[str, ...] = ()
    trusted: bool = False
    with_changes: bool = False


def task_text(source: str, cwd: Path) -> str:
    """The task itself, or the text of `@file`."""
    text = source
    if source.startswith("@"):
        try:
            text = (cwd / source[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise UserError(
                f"Cannot read the task file {source[1:]}: {reason(problem)}. Check the path."
            ) from None
    text = whole(text.strip().replace("\0", ""))
    if not text:
        raise UserError('The task is empty. Describe what to do, for example "Fix the failing test".')
    if len(text) > TASK_MOST:
        raise UserError(
            f"The task has {len(text)} characters; the limit is {TASK_MOST}. Shorten it, or put it into a file of the repository and name that."
        )
    return text


def resolve(
    app: App, request: RunRequest, standing: bool = False
) -> tuple[Repo, LoadedConfig, Machine, Settings]:
    """The repository, machine and settings of a request. `standing`: a lane of `flyball up`. UserError if it cannot run."""
    repo = inspect_repo(request.repo)
    _check_place(app, repo)
    loaded = load(
        repo.root,
        app.env,
        request.sets,
        agents=request.agents,
        machine=request.machine,
        breakpoints=request.breakpoints,
        pass_env=request.pass_env,
    )
    machine = loaded.table(loaded.machine)
    settings = _bounded(loaded, loaded.settings(machine)) if standing else loaded.settings(machine)
    _check(app, request, loaded, repo, machine, settings)
    if machine.standing and not standing:
        raise UserError(f"'{machine.name}' {STANDING}")
    return repo, loaded, machine, settings


def launch(app: App, request: RunRequest, standing: bool = False) -> tuple[e.RunBegan, Repo]:
    """The first event of a new run, and the files it pins."""
    repo, loaded, machine, settings = resolve(app, request, standing)
    run_id = new_id()
    pinned = _pin(app, run_id, loaded, repo)
    began = e.RunBegan(
        at=app.clock.now(),
        run=run_id,
        machine=machine.name,
        table=machine.table,
        settings=settings,
        task=request.task,
        rules=e.RULES,
        root=run_id,
        repo=str(repo.root),
        with_changes=request.with_changes,
        commit=repo.head,
        branch=repo.branch,
        version=__version__,
        pinned=pinned,
        environment=pinned_environment(app.state_dir, repo.root, app.env, settings.share),
    )
    return began, repo


WINDOWS = {"day_tokens": 20_000_000, "week_tokens": 100_000_000}  # of all runs, under `flyball up`


def _bounded(loaded: LoadedConfig, settings: Settings) -> Settings:
    """CTO-4: under `flyball up` every budget without a setting gets a default."""
    unsaid = {name: most for name, most in WINDOWS.items() if loaded.origin(f"budget.{name}") == "default"}
    return msgspec.structs.replace(settings, budget=msgspec.structs.replace(settings.budget, **unsaid))


def _check(
    app: App, request: RunRequest, loaded: LoadedConfig, repo: Repo, machine: Machine, settings: Settings
) -> None:
    _check_breakpoints(machine, settings)
    _check_nesting(loaded, machine, settings)
    _check_agents(loaded, machine, settings)
    env = pinned_environment(app.state_dir, repo.root, app.env, settings.share)
    venv = env.get("VIRTUAL_ENV", "")
    if venv and (foreign := foreign_install(repo.root, venv, settings.proof)):
        raise UserError(foreign)
    if settings.plan_file:
        require_plan_file(repo, settings.plan_file)
    policies_of(loaded).get(settings.policy)
    if loaded.addresses:
        from flyball.runtime.listeners import check

        check(loaded.addresses)
    _check_trust(app, loaded, repo, machine.name, request.trusted)
    _check_variables(app, request.pass_env)
    require(settings)
    _check_mechanic(loaded, machine, settings, repo.root, app.env.get("PATH", ""))


def _check_variables(app: App, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in app.env]
    if missing:
        raise UserError(
            f"--pass-env: the environment variable {missing[0]} is not set. Set it, or correct the name."
        )


def require_plan_file(repo: Repo, name: str) -> None:
    """A run sees only committed files."""
    if repo.git.ask("cat-file", "-e", f"{repo.head}:{name}", ok=(0, 1, 128)).code:
        raise UserError(
            f"There is no plan file {name} in the last commit of {repo.root}. Commit it, or name another file."
        )


def _check_place(app: App, repo: Repo) -> None:
    """Inside the repository, agents could reach the state directory, and every act would change the checkout."""
    if app.state_dir.resolve().is_relative_to(repo.root):
        raise UserError(
            f"The state directory {app.state_dir} is inside the repository {repo.root}, where agents can write. "
            "Set FLYBALL_STATE_DIR to a folder outside it."
        )


def _check_breakpoints(machine: Machine, settings: Settings) -> None:
    phases = [state.name for state in machine.states.values() if state.do]
    for name in settings.breakpoints:
        if name not in phases:
            raise ConfigError(
                f"'{name}' is not a state of '{machine.name}', so it cannot be a breakpoint. States: {', '.join(phases)}."
            )


def _check_nesting(
    loaded: LoadedConfig, machine: Machine, settings: Settings, above: tuple[str, ...] = ()
) -> None:
    """A machine that runs itself, directly or not, would start child runs forever."""
    path = (*above, machine.name)
    for state in machine.states.values():
        below = msgspec.structs.replace(settings, write=str(state.options.get("write", settings.write)))
        name = _run_in(state, below)
        if name in path:
            way = " → ".join((*path, name))
            raise ConfigError(
                f"'{name}' would run itself forever ({way}). Change '{state.name}' do something else."
            )
        if name:
            _check_nesting(loaded, loaded.table(name), below, path)


def _run_in(state: State, settings: Settings) -> str:
    """The machine of the child run that a state starts."""
    if state.act == "run":
        return state.of
    return state.loop.partition(":")[2] if settings.write == "loop" else ""


def _check_agents(loaded: LoadedConfig, machine: Machine, settings: Settings) -> None:
    for role in roles_of(loaded, machine, settings, set()):
        agent = settings.agent_for(role)
        if not agent:
            raise ConfigError(
                f"There is no agent for the role '{role}'. Pass --agent, for example --agent claude, or set [agents] "
                "default in .flyball/flyball.toml. `flyball agents` lists the agents; `flyball init` chooses one."
            )
        _check_agent(agent)
    for agent in settings.fallback:
        _check_agent(agent)


def _check_mechanic(
    loaded: LoadedConfig, machine: Machine, settings: Settings, root: Path, path: str
) -> None:
    roles = roles_of(loaded, machine, settings, set())
    if "mechanic" not in (*map(settings.agent_for, roles), *settings.fallback):
        return
    from flyball.agents.mechanic.suite import suite_here

    if suite_here(root, settings.proof, path) is None:
        raise UserError(
            f"The agent mechanic repairs Python projects that have pytest or unittest tests, and {root} has none. "
            "Use another agent; `flyball agents` lists them."
        )


def _check_agent(agent: str) -> None:
    missing = adapter(agent).missing()
    if missing:
        raise AgentMissing(missing)


def roles_of(loaded: LoadedConfig, machine: Machine, settings: Settings, visited: set[str]) -> list[str]:
    """The roles that a machine and the machines below it play."""
    visited.add(machine.name)
    roles: list[str] = []
    for state in machine.states.values():
        child = _run_in(state, settings)
        if child and child not in visited:
            below = msgspec.structs.replace(settings, write=str(state.options.get("write", settings.write)))
            roles += roles_of(loaded, loaded.table(child), below, visited)
        elif state.act == "agent" and not child:
            roles.append(state.of)
    return list(dict.fromkeys(roles))


def policies_of(loaded: LoadedConfig) -> policies.Policies:
    file = loaded.files.get(POLICY_FILE)
    return policies.parse(file.text, shipped_policies()) if file else shipped_policies()


def loosened(text: str) -> list[str]:
    """What a policy file allows that the shipped policy does not."""
    base = shipped_policies()
    named_policy = policies.parse(text, base).named
    return [
        s
        for name, policy in sorted(named_policy.items())
        for s in looser(base.named.get(name, base.get()), policy)
    ]


def tracked_files(root: Path) -> list[str]:
    listing = reading_user(root, "ls-files", "-z", "--", ".flyball").out
    return [os.fsdecode(name) for name in listing.split(b"\0") if name]


def _check_trust(app: App, loaded: LoadedConfig, repo: Repo, machine: str, trusted: bool) -> None:
    if not loaded.files:  # nothing of the repository's is used
        return
    from flyball.authority import trust

    store = trust.TrustStore(app.state_dir)
    needs = trust.needs(loaded, tracked_files(repo.root), machine, policy=loosened)
    needs = trust.untrusted(needs, loaded, repo.root, store)
    if not needs:
        return
    if not trusted:
        raise trust.refusal(needs)
    for path in dict.fromkeys(need.file for need in needs):
        store.trust(repo.root, path, loaded.files[path].sha256)


def _pin(app: App, run_id: str, loaded: LoadedConfig, repo: Repo) -> dict[str, str]:
    """A run uses copies as they were at its start, the user's git hooks too; its first event has their hashes."""
    folder, hashes = app.dirs.run(run_id).pinned, dict[str, str]()
    copy_hooks(repo, folder / GIT_HOOKS)
    for path, file in loaded.files.items():
        name, data = path.removeprefix(".flyball/"), file.text.encode("utf-8")
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        hashes[name] = hashlib.sha256(data).hexdigest()
    for file in (path for path in (folder / GIT_HOOKS).rglob("*") if path.is_file()):
        hashes[str(file.relative_to(folder))] = hashlib.sha256(file.read_bytes()).hexdigest()
    if loaded.addresses:
        from flyball.runtime.listeners import keep_addresses  # most runs notify nobody

        keep_addresses(app.dirs.run(run_id).notify, loaded.addresses)
    return hashes
