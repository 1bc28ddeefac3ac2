"""How long a run may stay in a state before somebody is told (TASK-6). An alert warns and never stops a run.

At 80 % the journal says so, at 100 % people are notified, at 150 % it shows in the inbox. Time in state is the time
since the state was entered, whatever the run's status.
"""

from __future__ import annotations

from flyball.core.run import Run
from flyball.domain import events as e
from flyball.domain.units import rough, show_duration

STEPS = (80, 100, 150)  # percent of the state's alert time
CODE = "alert."
NOTIFY, RAISE = f"{CODE}100", f"{CODE}150"


def allowed_us(run: Run) -> int:
    """The alert time of the state that the run is in: as configured, else the machine's; 0: there is none."""
    if run.machine.supervises and run.here.act == "run":
        return 0  # the standing loop has a rule of its own for this (CTO-9)
    usual = run.machine.alert_us.get(run.state, 0)
    return run.settings.timeout_us(run.machine.name, f"alert.{run.state}", usual)


def late(run: Run, now: int) -> list[e.Warned]:
    """The alert that is due: the highest step reached, once."""
    allowed, passed = allowed_us(run), now - run.entered_at
    if not allowed or run.status == "ended":
        return []
    step = max((step for step in STEPS if passed * 100 >= allowed * step), default=0)
    if step <= run.path.alerted:
        return []
    text = f"in '{run.state}' for {rough(passed)}, {step}% of its alert time ({show_duration(allowed)})"
    return [e.Warned(at=now, code=f"{CODE}{step}", text=text)]


def next_at(run: Run) -> int | None:
    """When the next alert is due."""
    allowed = allowed_us(run)
    step = next((step for step in STEPS if step > run.path.alerted), None)
    if not allowed or step is None or run.status == "ended":
        return None
    return run.entered_at - (-allowed * step // 100)


def step_of(code: str) -> int:
    """The step that a warning's code names; 0 for another code."""
    return int(code.removeprefix(CODE)) if code.startswith(CODE) else 0
