"""A LangGraph graph whose store is UpliftMem; the outcome of a run reaches the searches it made.

pip install upliftmem[langgraph]
python examples/langgraph_store.py
"""

from __future__ import annotations

import tempfile
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

from upliftmem import Client
from upliftmem.langgraph import UpliftMemStore


class State(TypedDict, total=False):
    """What the nodes hand on."""

    task: str
    notes: list[str]
    answer: str


def recall(state: State, *, store: BaseStore) -> State:
    """Asks the store for what helps."""
    found = store.search(("memories", "alice"), query=state["task"])
    return {"notes": [item.value["text"] for item in found]}


def act(state: State) -> State:
    """Stands for a call of a model."""
    return {"answer": f"{state['task']} with {len(state['notes'])} notes"}


def main() -> None:
    """Runs the example."""
    builder = StateGraph(State)
    builder.add_node("recall", recall)
    builder.add_node("act", act)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "act")
    builder.add_edge("act", END)

    with tempfile.TemporaryDirectory() as folder, Client(data_dir=folder, agent_id="helper") as client:
        store = UpliftMemStore(client)
        store.put(("memories", "alice"), "tea", {"text": "Alice drinks green tea."})
        store.put(("memories", "alice"), "desk", {"text": "Alice sits at the window."})
        graph = builder.compile(store=store)
        for task in ("order a drink for Alice", "find Alice's desk"):
            with store.episode() as ep:
                state = graph.invoke({"task": task})
                print(state["answer"])
                for learned in ep.report(success=True, cost=2):
                    print("  utility", round(learned.utility, 3), "- compared with:", learned.reference)
        print([item.value["text"] for item in store.search(("memories",))])


if __name__ == "__main__":
    main()
