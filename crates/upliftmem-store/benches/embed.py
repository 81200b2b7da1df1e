"""Writes the vector of every line of a file as little-endian f32, for `UPLIFTMEM_BENCH_VECTORS`.

usage: python3 embed.py MODEL sentences.txt vectors.f32      needs sentence-transformers
"""

import sys

import numpy
import torch
from sentence_transformers import SentenceTransformer

torch.set_num_threads(1)
model = SentenceTransformer(sys.argv[1], device="cpu")
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
vectors = model.encode(lines, batch_size=64, normalize_embeddings=True, show_progress_bar=False)
numpy.asarray(vectors, dtype="<f4").tofile(sys.argv[3])
