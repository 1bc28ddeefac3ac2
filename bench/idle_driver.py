"""A real driver of a hundred runs: half listen for a trigger, half wait for an answer. It sleeps until it is killed."""

from __future__ import annotations

from msgspec.structs import replace

from bench.yard import began
from flyball.journal.driver import Driver
from flyball.runtime.app import App

RUNS = 100


def main() -> None:
    app = App()
    app.state_dir.mkdir(parents=True, exist_ok=True)
    supervisor = app.supervisor(Driver(app.state_dir))
    for number in range(RUNS):
        start = "WAITING_FOR_HUMAN" if number % 2 else "IDLE"
        supervisor.begin(replace(began(f"r{number}", "cto"), start=start))
    said: list[bool] = []

    def done() -> bool:
        if not said:
            said.append(True)
            print("ready", flush=True)
        return False

    supervisor.drive(done)


if __name__ == "__main__":
    main()
