"""A plain function with memory: each call searches, and a judge reports how it went.

python examples/decorator.py
"""

from __future__ import annotations

import tempfile

from upliftmem import Client, Episode


def main() -> None:
    """Runs the example."""
    with tempfile.TemporaryDirectory() as folder, Client(data_dir=folder, user_id="alice") as client:
        client.add("Alice wants answers in capital letters.")

        @client.with_memory(judge=str.isupper)
        def answer(ep: Episode, task: str) -> str:
            # A real agent would put ep.block into its prompt.
            return task.upper() if "capital letters" in ep.block else task

        for question in ("what is for lunch", "where is the key", "who has the car"):
            print(question, "->", answer(question))
        print(client.ledger().executions, "outcomes were reported")


if __name__ == "__main__":
    main()
