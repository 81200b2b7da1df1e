"""The alternatives a user has, on the vectors that `cargo bench -p upliftmem-store` wrote to UPLIFTMEM_BENCH_DUMP.

usage: python3 peers.py FOLDER KIND-SIZE...   (clustered-100000 and the like; see the folder)      needs numpy, usearch, hnswlib, faiss-cpu
One thread, 50 neighbours, inner product of unit vectors; prints rows of a Markdown table.
"""

import pathlib
import resource
import sys
import time

import numpy

DIMENSION = 384
NEIGHBOURS = 50


def report(name, size, build, search, queries, truth):
    for query in queries[:20]:
        search(query)
    times, found = [], 0
    before = time.process_time()
    for number, query in enumerate(queries):
        start = time.perf_counter()
        answer = search(query)
        times.append((time.perf_counter() - start) * 1e3)
        if number < len(truth):
            found += len(set(truth[number]) & set(int(key) for key in answer))
    processor = (time.process_time() - before) * 1e3 / len(queries)
    p50, p99 = numpy.percentile(times, [50, 99])
    recall = found / truth.size
    print(f"| {name} | {size} | {p50:.2f} | {p99:.2f} | {processor:.2f} | {recall:.4f} | {build:.1f} |", flush=True)


def usearch_peer(vectors):
    from usearch.index import Index

    index = Index(ndim=DIMENSION, metric="ip", dtype="f32", connectivity=16, expansion_add=128, expansion_search=256)
    index.add(numpy.arange(len(vectors)), vectors, threads=1)
    return lambda query: index.search(query, NEIGHBOURS, threads=1).keys


def hnswlib_peer(vectors):
    import hnswlib

    index = hnswlib.Index(space="ip", dim=DIMENSION)
    index.init_index(max_elements=len(vectors), ef_construction=128, M=16)
    index.set_num_threads(1)
    index.add_items(vectors)
    index.set_ef(256)
    return lambda query: index.knn_query(query, k=NEIGHBOURS)[0][0]


def faiss_hnsw_peer(vectors):
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(DIMENSION, 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 128
    index.hnsw.efSearch = 256
    index.add(vectors)
    return lambda query: index.search(query[None], NEIGHBOURS)[1][0]


def faiss_flat_peer(vectors):
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    return lambda query: index.search(query[None], NEIGHBOURS)[1][0]


PEERS = {
    "usearch (Python), f32": usearch_peer,
    "hnswlib (Python)": hnswlib_peer,
    "faiss HNSW (Python)": faiss_hnsw_peer,
    "faiss exact (Python)": faiss_flat_peer,
}

folder = pathlib.Path(sys.argv[1])
print("| library | vectors | p50 ms | p99 ms | processor ms | recall@50 | build s of a processor |\n|---|---|---|---|---|---|---|", flush=True)
for size in sys.argv[2:]:
    vectors = numpy.fromfile(folder / f"vectors-{size}.f32", dtype="<f4").reshape(-1, DIMENSION)
    queries = numpy.fromfile(folder / f"queries-{size}.f32", dtype="<f4").reshape(-1, DIMENSION)
    truth = numpy.fromfile(folder / f"truth-{size}.u32", dtype="<u4").reshape(-1, NEIGHBOURS)
    for name, peer in PEERS.items():
        start = time.process_time()
        search = peer(vectors)
        report(name, size, time.process_time() - start, search, queries, truth)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"\n* peak memory of all of them in one process: {peak:.0f} MiB")
