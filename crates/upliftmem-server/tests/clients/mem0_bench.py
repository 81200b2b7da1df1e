"""How fast mem0 searches when it is embedded in a Python process, without a language model, on the texts of `upliftmem bench serve`.

    python3 -m venv v && v/bin/pip install mem0ai==2.2.1 numpy
    v/bin/python crates/upliftmem-server/tests/clients/mem0_bench.py 1000 100000

Its own classes answer: `Memory.search` on its local Qdrant store. Two parts of it are given: the embedder (words hashed into 512
numbers, no model, as cheap as ours) and no language model at all (`infer=False` never asks one). Memories are put into its
vector store in batches, past `Memory.add`, which takes one at a time. One thread asks; no HTTP is between.
"""

import hashlib
import json
import os
import random
import sys
import tempfile
import time
import uuid

import numpy

os.environ["MEM0_TELEMETRY"] = "False"
DIMENSION = 512
PARTS = "ka lo mi ner tu sa ri von pel da gor hin bes zu fa wex".split()
SECONDS = 20


def sentence(rng, words):
    return " ".join("".join(rng.choice(PARTS) for _ in range(3)) for _ in range(words))


class HashEmbedder:
    """Each word adds one at a place that its hash names; the vector has length 1."""

    def __init__(self):
        self.config = type("Config", (), {"embedding_dims": DIMENSION})()

    def embed(self, text, memory_action=None):
        vector = numpy.zeros(DIMENSION, dtype=numpy.float32)
        for word in text.lower().split():
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[int.from_bytes(digest[:4], "little") % DIMENSION] += 1 if digest[4] & 1 else -1
        length = numpy.linalg.norm(vector)
        return (vector / length if length else vector).tolist()

    def embed_batch(self, texts, memory_action=None):
        return [self.embed(text) for text in texts]


def memory(directory):
    """mem0 on its local vector store, with the embedder above and without a language model."""
    os.environ["MEM0_DIR"] = os.path.join(directory, "mem0")
    from mem0 import Memory
    from mem0.utils import factory

    factory.EmbedderFactory.create = staticmethod(lambda *given: HashEmbedder())
    factory.LlmFactory.create = staticmethod(lambda *given, **more: None)
    place = {"path": os.path.join(directory, "qdrant"), "on_disk": True, "embedding_model_dims": DIMENSION,
             "collection_name": "bench"}
    return Memory.from_config({
        "vector_store": {"provider": "qdrant", "config": place},
        "history_db_path": os.path.join(directory, "history.db"),
    })


def measure(count):
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        mem0, embedder = memory(directory), HashEmbedder()
        began = time.monotonic()
        for start in range(0, count, 1000):
            texts = [sentence(rng, 14) for _ in range(min(1000, count - start))]
            mem0.vector_store.insert(
                vectors=[embedder.embed(text) for text in texts],
                ids=[str(uuid.UUID(int=rng.getrandbits(128))) for _ in texts],
                payloads=[{"data": text, "user_id": "bench", "hash": "", "created_at": ""} for text in texts],
            )
        filled = time.monotonic() - began
        times = []
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            query = sentence(rng, 10)
            began = time.monotonic()
            found = mem0.search(query, filters={"user_id": "bench"}, top_k=5, threshold=0.0)
            times.append(1e3 * (time.monotonic() - began))
            assert len(found["results"]) > 0 or count == 0, found
        times.sort()
        at = lambda share: round(times[int((len(times) - 1) * share)], 2)
        return {"memories": count, "filled_s": round(filled, 1), "searches": len(times),
                "per_second": round(1e3 * len(times) / sum(times), 1),
                "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0)}


for size in sys.argv[1:] or ["1000", "100000"]:
    print(json.dumps(measure(int(size))), flush=True)
