"""LangGraph on the same work: a graph of one state that goes round, each step durable before the next begins."""

import json
import sqlite3
import sys
import threading
import time
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class Loop(TypedDict):
    turn: int
    most: int
    tree: str


def work(state: Loop) -> dict[str, int | str]:
    return {"turn": state["turn"] + 1, "tree": f"{state['turn']:040x}"}


def onward(state: Loop) -> str:
    return END if state["turn"] >= state["most"] else "work"


def main(path: str, loops: int, steps: int) -> None:
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous = FULL")
    graph = StateGraph(Loop)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", onward)
    ready = graph.compile(checkpointer=saver)

    def go(number: int, most: int) -> None:
        config = {"configurable": {"thread_id": str(number)}, "recursion_limit": most + 10}
        ready.invoke({"turn": 0, "most": most, "tree": ""}, config, durability="sync")

    go(-1, 5)
    threads = [threading.Thread(target=go, args=(number, steps)) for number in range(loops)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"per_second": loops * steps / (time.perf_counter() - began)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
