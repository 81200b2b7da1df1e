"""Schemathesis against the OpenAPI document: answers conform to it, nothing breaks, keys are asked for."""

import os
import subprocess
import sys

from started import server

EXAMPLES = os.environ.get("UPLIFTMEM_SCHEMA_EXAMPLES", "20")

with server("server.requests_max=64", keys=True) as (url, key):
    command = [
        os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", f"{url}/openapi.json",
        "--header", f"Authorization: Bearer {key}",
        "--max-examples", EXAMPLES, "--workers", "1", "--seed", "1", "--no-color",
        "--phases", "examples,coverage,fuzzing",
        # Whether an id exists or a text is sensible is not in a schema: data that fits it may be refused.
        "--exclude-checks", "positive_data_acceptance,negative_data_rejection",
        # Its answers are those of an upstream.
        "--exclude-path", "/v1/chat/completions",
    ]
    sys.exit(subprocess.run(command).returncode)
