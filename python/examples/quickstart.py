"""Add memories, search, report. Starts a server of its own, with its store in a folder that is thrown away.

python examples/quickstart.py
"""

from __future__ import annotations

import tempfile

from upliftmem import Client


def main() -> None:
    """Runs the example."""
    with tempfile.TemporaryDirectory() as folder, Client(data_dir=folder, user_id="alice") as client:
        for text in (
            "The staging database is read-only on Sundays.",
            "Deployments need a change ticket.",
            "The coffee machine on floor 3 is broken.",
        ):
            print(client.add(text).status, "-", text)

        found = client.search("run the migration on staging")
        print("\npredicted uplift", round(found.predicted_uplift, 3), "by", found.scorer)
        print("memories to use:", [memory.memory for memory in found.results] or f"none, {found.reason}")

        learned = client.outcome(found.retrieval_id, success=True, cost=4)
        print("utility", round(learned.utility, 3), "- compared with:", learned.reference)
        print(client.does_memory_help().verdict)


if __name__ == "__main__":
    main()
