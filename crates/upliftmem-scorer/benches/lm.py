"""torch + transformers + peft, to compare `upliftmem bench scorer` with.

    python benches/lm.py weights DIRECTORY
    python benches/lm.py forward|step|retrieval MODEL [--threads 1] [--rounds 3] [--sets REPORT.json] [--packed]

Needs `torch`, `transformers` and `peft` (and `gguf` for a GGUF file). `weights` writes random numbers in the shape of
Qwen3-Reranker-0.6B, single precision. `MODEL` is such a directory or a GGUF file. Rates are per second of CPU time.

`retrieval` scores sets of one beam retrieval that `upliftmem bench scorer --json` names in REPORT.json, in padded batches
sorted by length, only the last position through the head, and scales by tokens to all sets of the retrieval, and of each of
`--draws`. It says how far its margins are from those in the report.

`--packed` lays the weights out for oneDNN before anything is measured, which nothing in torch does by itself outside a compiled
graph. It has no way back. Where MKL takes the processor for an unknown one (AMD) this is twice as fast as torch's own choice.
"""

import argparse
import json
import pathlib
import re
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

LENGTH, YES, NO = 256, 9693, 2152
PREFIX, MEMORY, TAIL = 200, 60, 12


def weights(directory):
    config = Qwen3Config(
        vocab_size=151669,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
    )
    torch.manual_seed(1)
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model = model.to_empty(device="cpu")
    for name, value in model.named_parameters():
        torch.nn.init.ones_(value) if "norm" in name else torch.nn.init.normal_(value, std=0.02)
    model.tie_weights()
    model.save_pretrained(directory)


def load(path):
    path = pathlib.Path(path)
    if path.is_dir():
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


def pack(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module is not model.lm_head:
            weight = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach(), LENGTH)
            bias = None if module.bias is None else module.bias.detach()
            module.forward = lambda x, weight=weight, bias=bias: torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def repeatable(count, seed, vocabulary):
    """The tokens that `upliftmem bench scorer` reads."""
    whole = (1 << 64) - 1
    state = (seed * 0x9E3779B97F4A7C15 & whole) | 1
    found = []
    for _ in range(count):
        state ^= state << 13 & whole
        state ^= state >> 7
        state ^= state << 17 & whole
        found.append(state % vocabulary)
    return found


def text_of(members, vocabulary):
    text = repeatable(PREFIX, 1, vocabulary)
    for number, member in enumerate(members, 3):
        text += [number, *repeatable(MEMORY - 1, 100 + member, vocabulary)]
    return text + repeatable(TAIL, 2, vocabulary)


def measured(tokens, work):
    # The peak of this work alone, not of loading the model.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    cpu, clock = time.process_time(), time.perf_counter()
    result = work()
    return result, (tokens, time.process_time() - cpu, time.perf_counter() - clock)


def report(what, rate):
    tokens, cpu, clock = rate
    peak = int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
    print(f"{what}: {tokens} tokens, {cpu:.2f} CPU s, {tokens / cpu:.1f} tokens/CPU s, {clock:.2f} s, peak {peak} MB", flush=True)


def retrieval(model, yes, no, file):
    whole_report = json.loads(pathlib.Path(file).read_text())
    found = whole_report["retrieval"]
    trie = next(way for way in found if way["sharing"] == "trie")
    whole = next(way for way in found if way["sharing"] == "one by one")["tokens"]
    texts = [text_of(example["members"], model.config.vocab_size) for example in trie["examples"]]
    read = sum(map(len, texts))
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    best = None
    for batch in (1, 2, 4):

        def score():
            margins = {}
            for first in range(0, len(order), batch):
                group = order[first : first + batch]
                longest = max(len(texts[at]) for at in group)
                rows = torch.tensor([[0] * (longest - len(texts[at])) + texts[at] for at in group])
                mask = torch.tensor([[0] * (longest - len(texts[at])) + [1] * len(texts[at]) for at in group])
                with torch.inference_mode():
                    logits = model(rows, attention_mask=mask if len(group) > 1 else None, logits_to_keep=1, use_cache=False).logits
                for row, at in enumerate(group):
                    margins[at] = float(logits[row, -1, yes] - logits[row, -1, no])
            return margins

        margins, rate = measured(read, score)
        gap = max(abs(margins[at] - example["margin"]) for at, example in enumerate(trie["examples"]))
        report(f"batches of {batch}, {len(texts)} of {trie['sets']} sets, largest difference {gap:.1e}", rate)
        best = min(best or rate[1], rate[1])
    # Sets of all draws have the same lengths in other order, so that the same rate serves them.
    ways = [("kept by the model", whole, trie)] + [(f"draw {draw['seed']}", draw["whole"], draw) for draw in whole_report["drawn"]]
    ratios = []
    for name, tokens, own in ways:
        theirs = best * tokens / read
        ratios.append(theirs / own["cpu_seconds"])
        print(
            f"{name}: {own['sets']} sets, {tokens} tokens: {theirs:.0f} CPU s, scaled by tokens; "
            f"through the tree {own['tokens']} tokens, {own['cpu_seconds']:.1f} CPU s: {ratios[-1]:.2f} times as fast",
            flush=True,
        )
    if len(ratios) > 1:
        drawn = ratios[1:]
        print(f"mean of {len(drawn)} draws: {sum(drawn) / len(drawn):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["weights", "forward", "step", "retrieval"])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sets")
    parser.add_argument("--packed", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "weights":
        return weights(arguments.model)
    torch.set_num_threads(arguments.threads)
    model = load(arguments.model).eval()
    if arguments.packed:
        with torch.inference_mode():
            pack(model)
    vocabulary = model.config.vocab_size
    yes, no = YES % vocabulary, NO % vocabulary
    text = torch.tensor([repeatable(LENGTH, 1, vocabulary)])

    def margin(out):
        return out.logits[:, -1, yes] - out.logits[:, -1, no]

    if arguments.what == "forward":
        with torch.inference_mode():
            forward = lambda: margin(model(text, logits_to_keep=1, use_cache=False))
            forward()
            report("forward", measured(LENGTH * arguments.rounds, lambda: [forward() for _ in range(arguments.rounds)])[1])
    elif arguments.what == "step":
        modules = ["q_proj", "k_proj", "v_proj", "o_proj"]
        settings = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.1, target_modules=modules, task_type="CAUSAL_LM")
        peft = get_peft_model(model, settings).train()

        def step():
            peft.zero_grad()
            margin(peft(text, logits_to_keep=1, use_cache=False)).sum().backward()

        step()
        report("LoRA step", measured(LENGTH * arguments.rounds, lambda: [step() for _ in range(arguments.rounds)])[1])
    else:
        retrieval(model, yes, no, arguments.sets)


main()
