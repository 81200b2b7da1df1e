"""The same sentences through sentence-transformers and model2vec, on one thread, to compare with the benchmark beside it.

    pip install torch sentence-transformers model2vec
    python embedders.py MODELS
"""

import os
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

WORDS = (
    "the agent restarts a database before migration and checks whether every user "
    "can still log in because an older note says that sessions expire"
).split()
SECONDS = 3


def sentences():
    state = 1

    def below(limit):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % limit

    for _ in range(256):
        length = 8 + below(17) + below(17) * below(2)
        yield " ".join(WORDS[below(len(WORDS))] for _ in range(length)) + "."


def seconds_per_sentence(embed, batches):
    embed(batches[0])
    count, number, wall, cpu = 0, 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < SECONDS:
        number += 1
        count += len(embed(batches[number % len(batches)]))
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def main(models):
    torch.set_num_threads(1)
    texts = list(sentences())
    bert = SentenceTransformer(str(models / "all-MiniLM-L6-v2"), device="cpu")
    static = StaticModel.from_pretrained(str(models / "potion-base-8M"))
    print(f"load before: {Path('/proc/loadavg').read_text().strip()}")
    print(f"{'embedder':<18} {'sentences/s':>12} {'ms a sentence':>16} {'ms of processor':>16} {'alone':>10}")
    for name, embed in [
        ("potion-base-8M", lambda batch: static.encode(batch)),
        ("all-MiniLM-L6-v2", lambda batch: bert.encode(batch, batch_size=64, normalize_embeddings=True)),
    ]:
        wall, cpu = seconds_per_sentence(embed, [texts[start : start + 64] for start in range(0, 256, 64)])
        _, alone = seconds_per_sentence(embed, [[text] for text in texts])
        print(f"{name:<18} {1 / wall:>12.0f} {wall * 1e3:>16.4f} {cpu * 1e3:>16.4f} {alone * 1e3:>10.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
