#!/usr/bin/env python3
"""The smallest useful executor: attach your agent to UpliftMem.

UpliftMem writes one request a line to this program's stdin and reads one response a line from its stdout.
Everything you print for yourself goes to stderr; UpliftMem logs it.

Try it without UpliftMem:

    echo '{"v":1,"id":"x","task":{"id":"t","context":"Say hello","metadata":{}},"memories":[],"seed":1,"purpose":"reference"}' \
        | python3 examples/executor.py
"""

import json
import sys


def run_agent(task, memories, seed):
    """Put your agent here. Return how well it did (0 to 1), what it cost, and its steps.

    The agent should do the same when it is given the same task, memories and seed.
    An exception fails this one execution; the program goes on.
    """
    prompt = task["context"]
    if memories:
        notes = "\n".join("- " + memory["text"] for memory in memories)
        prompt += "\n\nNotes from earlier work, which may or may not help:\n" + notes

    answer = "hello"  # your_model(prompt, seed=seed)

    expected = task["metadata"].get("expected", "hello")
    performance = 1.0 if answer == expected else 0.0
    cost = 1  # actions, tokens, cents: the unit is yours, smaller is better
    steps = [{"action": "answer: " + answer, "observation": "expected: " + expected}]
    return performance, cost, steps


def main():
    # Responses must be alone on stdout: whatever else prints there is sent to stderr.
    responses, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:  # ends when UpliftMem closes our input
        request = json.loads(line)
        response = {"v": 1, "id": request["id"]}
        try:
            performance, cost, steps = run_agent(request["task"], request["memories"], request["seed"])
            response.update(performance=performance, cost=cost, trajectory=steps)
        except Exception as problem:
            response["error"] = f"{type(problem).__name__}: {problem}"
        # One object on one line, written at once.
        print(json.dumps(response), file=responses, flush=True)


if __name__ == "__main__":
    main()
