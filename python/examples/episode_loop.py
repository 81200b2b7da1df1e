"""A toy agent that learns which notes help it.

The agent opens doors. One note is true, one looks just like it and is wrong, and some doors need no note at all. The
loop runs tasks with what the server advises, spends spare time on probes, and ends with what was learned.

python examples/episode_loop.py
"""

from __future__ import annotations

import random
import tempfile

from upliftmem import Client, Outcome, Probe

TRUE_NOTE = "Blue doors open with the round key."
WRONG_NOTE = "Blue doors open with the square key."
CHATTER = ["The corridor was painted in May.", "Lunch is at noon."]
# Blue doors need the true note; green ones open by themselves.
DOORS = [f"open the {color} door in room {room}" for room in range(1, 9) for color in ("blue", "green")]


def agent(task: str, notes: list[str]) -> Outcome:
    """Succeeds on green doors unless it is misled, and on blue ones if it was told the truth."""
    misled = WRONG_NOTE in notes
    opened = not misled and ("green" in task or TRUE_NOTE in notes)
    return Outcome(performance=float(opened), cost=3.0 + len(notes))


def probe(probe: Probe) -> Outcome:
    """Runs a task with exactly the notes that the server wants to know about."""
    return agent(probe.task.context, [memory.text for memory in probe.memories])


def main() -> None:
    """Runs the example."""
    order = random.Random(7)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder, Client(data_dir=folder, agent_id="doors") as client:
        client.add_many([TRUE_NOTE, WRONG_NOTE, *CHATTER])
        for episode_round in range(1, 5):
            doors = order.sample(DOORS, len(DOORS))
            opened = 0.0
            for task in doors:
                with client.episode(task) as ep:
                    outcome = agent(task, [memory.memory for memory in ep.memories])
                    ep.report(performance=outcome.performance, cost=outcome.cost)
                opened += outcome.performance
            plan = client.plan_probes(budget=20)
            done = client.work(probe, probes=60)
            client.refit()
            print(
                f"round {episode_round}: {opened:.0f} of {len(doors)} doors opened; "
                f"{plan.probes} probes planned, {done.completed} executions run"
            )

        print("\n" + client.does_memory_help().verdict)
        for effect in client.effects(order="help"):
            print(f"{effect.effect:+.2f} after {effect.executions:3} executions: {effect.memory}")
        for task in ("open the blue door in room 2", "open the green door in room 2"):
            found = client.search(task)
            print(f"\n{task}: {[memory.memory for memory in found.results] or 'no memory'}")


if __name__ == "__main__":
    main()
