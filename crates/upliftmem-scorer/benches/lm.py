"""torch + transformers + peft on the shape of Qwen3-Reranker-0.6B, to compare `upliftmem bench scorer` with.

    python benches/lm.py forward|step|retrieval [--threads 1] [--rounds 3] [--sample 8]

Needs `torch`, `transformers` and `peft`. Random numbers, single precision; rates are per second of CPU time. `retrieval` scores a
sample of the 427 sets of one beam retrieval in padded batches sorted by length, only the last position through the head, and
scales by tokens.
"""

import argparse
import random
import resource
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

CONFIG = Qwen3Config(
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
LENGTH, YES, NO = 256, 9693, 2152
PREFIX, MEMORY, TAIL = 200, 60, 12
# Sets of each size that a beam of width 2 over 50 candidates scores.
SETS = {1: 50, 2: 97, 3: 95, 4: 93, 5: 92}


def measured(tokens, work):
    cpu, clock = time.process_time(), time.perf_counter()
    work()
    return tokens, time.process_time() - cpu, time.perf_counter() - clock


def report(what, tokens, cpu, clock):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {tokens} tokens, {cpu:.2f} CPU s, {tokens / cpu:.1f} tokens/CPU s, {clock:.2f} s, peak {peak:.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["forward", "step", "retrieval"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    with torch.device("meta"):
        model = Qwen3ForCausalLM(CONFIG)
    model = model.to_empty(device="cpu")
    for value in model.parameters():
        torch.nn.init.normal_(value, std=0.02)
    model.model.rotary_emb = type(model.model.rotary_emb)(CONFIG)
    model.tie_weights()
    text = torch.randint(0, CONFIG.vocab_size, (1, LENGTH))

    def margin(out):
        return out.logits[:, -1, YES] - out.logits[:, -1, NO]

    if arguments.what == "forward":
        model.eval()
        with torch.inference_mode():
            forward = lambda: margin(model(text, logits_to_keep=1, use_cache=False))
            forward()
            report("forward", *measured(LENGTH * arguments.rounds, lambda: [forward() for _ in range(arguments.rounds)]))
    elif arguments.what == "step":
        modules = ["q_proj", "k_proj", "v_proj", "o_proj"]
        peft = get_peft_model(
            model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.1, target_modules=modules, task_type="CAUSAL_LM")
        ).train()

        def step():
            peft.zero_grad()
            margin(peft(text, logits_to_keep=1, use_cache=False)).sum().backward()

        step()
        report("LoRA step", *measured(LENGTH * arguments.rounds, lambda: [step() for _ in range(arguments.rounds)]))
    else:
        model.eval()
        sizes = [size for size, count in SETS.items() for _ in range(count)]
        whole = sum(PREFIX + MEMORY * size + TAIL for size in sizes)
        random.seed(1)
        sample = sorted(sizes[at] for at in range(0, len(sizes), -(-len(sizes) // arguments.sample)))
        best = None
        for batch in (1, 2, 4):
            groups = [sample[at : at + batch] for at in range(0, len(sample), batch)]
            read = sum(PREFIX + MEMORY * size + TAIL for size in sample)

            def score():
                with torch.inference_mode():
                    for group in groups:
                        longest = PREFIX + MEMORY * max(group) + TAIL
                        mask = torch.zeros((len(group), longest), dtype=torch.long)
                        for row, size in enumerate(group):
                            mask[row, longest - (PREFIX + MEMORY * size + TAIL) :] = 1
                        tokens = torch.randint(0, CONFIG.vocab_size, (len(group), longest))
                        margin(model(tokens, attention_mask=mask if len(group) > 1 else None, logits_to_keep=1, use_cache=False))

            tokens, cpu, clock = measured(read, score)
            report(f"batches of {batch}, {len(sample)} of {len(sizes)} sets", tokens, cpu, clock)
            best = min(best or cpu, cpu)
        scale = whole / sum(PREFIX + MEMORY * size + TAIL for size in sample)
        print(f"one retrieval of {len(sizes)} sets, {whole} tokens: {best * scale:.0f} CPU s, scaled by tokens", flush=True)


main()
