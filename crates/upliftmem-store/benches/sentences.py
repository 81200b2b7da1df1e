"""Writes sentences of dialogues, one a line, for `UPLIFTMEM_BENCH_SENTENCES`.

usage: python3 sentences.py FOLDER_OF_JSONL_GZ > sentences.txt
The folder holds MemSyco-Bench's files; every object with a list `dialogue` of `{content}` will do.
"""

import gzip
import json
import pathlib
import re
import sys

seen = set()
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl.gz")):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            for turn in json.loads(line)["dialogue"]:
                for sentence in re.split(r"(?<=[.!?])\s+", turn["content"]):
                    sentence = " ".join(sentence.split())
                    if 30 <= len(sentence) <= 400 and sentence not in seen:
                        seen.add(sentence)
                        print(sentence)
