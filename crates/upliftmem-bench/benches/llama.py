"""How fast llama.cpp reads and answers, per second of CPU time: what `upliftmem bench chat` is compared with.

    pip install xllamacpp
    python llama.py model.gguf
"""

import argparse
import json
import time

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are read")
    parser.add_argument("--answer", type=int, default=128, help="tokens that are answered")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    settings = xllamacpp.CommonParams()
    settings.model.path = arguments.model
    settings.n_ctx = 2048
    settings.n_parallel = 1
    settings.n_gpu_layers = 0
    settings.cpuparams.n_threads = arguments.threads
    settings.cpuparams_batch.n_threads = arguments.threads
    settings.verbosity = 0
    server = xllamacpp.Server(settings)

    def cpu_seconds(tokens: list[int], answer: int) -> float:
        before = time.process_time()
        server.handle_completions(
            {
                "prompt": tokens,
                "n_predict": answer,
                "temperature": 0.0,
                "cache_prompt": False,
                "ignore_eos": True,
            }
        )
        return time.process_time() - before

    reading = answering = 0.0
    # The first round finds caches cold.
    for number in range(arguments.rounds + 1):
        tokens = [(at * 7919 + number) % 20000 + 1000 for at in range(arguments.prompt)]
        short = cpu_seconds(tokens, 1)
        whole = cpu_seconds(tokens, 1 + arguments.answer)
        if number > 0:
            reading += short
            answering += whole - short
    print(xllamacpp.get_system_info())
    print(
        json.dumps(
            {
                "model": arguments.model,
                "reading_per_cpu_second": round(arguments.prompt * arguments.rounds / reading, 1),
                "answering_per_cpu_second": round(arguments.answer * arguments.rounds / answering, 1),
            }
        )
    )


main()
