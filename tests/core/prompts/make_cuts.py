#!/usr/bin/env python3
"""Writes cut_cases.json: random prompts as pieces, and how many tokens of each go into which chunk.

Usage: make_cuts.py    with compel 2.5.1, torch and transformers installed

Compel's are what the package does, in the mode that it has by default. A1111's and ComfyUI's come from their rules.
"""

import json
import pathlib
import random
import types

from compel.embeddings_provider import EmbeddingsProvider, SplitLongTextMode
from transformers import CLIPTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]
MOST = 75
MOST_CHUNKS = 4
WORDS = ["a", "red", "ring", "star", "background", "white", "cat"]
SIGNS = [",", ".", ";", ":"]


def cut_a1111(tokenize, pieces):
    """Up to 75 tokens, but behind the last comma that is one of the last 20 of them; not where a comma follows."""
    comma = tokenize(",")[0]
    segments = [[]]
    for text, _, begins in pieces:
        if begins:
            segments.append([])
        segments[-1] += tokenize(text)
    counts = []
    for i, left in enumerate(segments):
        is_last = i + 1 == len(segments)
        if not left and not (is_last and counts):
            counts.append(0)
        while left:
            count = min(len(left), MOST)
            if len(left) > MOST and left[MOST] != comma:
                count = next((at + 1 for at in reversed(range(MOST - 20, MOST)) if left[at] == comma), MOST)
            counts.append(count)
            left = left[count:]
    return counts


def cut_comfyui(tokenize, pieces):
    """A piece of less than 8 tokens that has no room begins a chunk; longer ones fill the one before."""
    counts = [0]
    for text, _, _ in pieces:
        left = len(tokenize(text))
        is_short = left < 8
        while counts[-1] + left > MOST:
            if not is_short:
                left -= MOST - counts[-1]
                counts[-1] = MOST
            counts.append(0)
        counts[-1] += left
    return counts


def cut_compel(tokenizer, pieces):
    provider = EmbeddingsProvider(
        tokenizer, types.SimpleNamespace(device="cpu"), truncate=False,
        split_long_text_mode=SplitLongTextMode.SENTENCES)
    ids, _, _ = provider.get_token_ids_and_expand_weights(
        [text for text, _, _ in pieces], [weight for _, weight, _ in pieces], device="cpu")
    chunks = ids.reshape(-1, MOST + 2).tolist()
    return [chunk.index(tokenizer.eos_token_id) - 1 for chunk in chunks]


def random_text(draw, words):
    text = ""
    sign = draw.choice([0.02, 0.1, 0.3])
    for _ in range(words):
        text += draw.choice(SIGNS) if draw.random() < sign else " " + draw.choice(WORDS)
    return text


def random_pieces(draw, syntax):
    pieces = []
    for i in range(draw.choice([1, 4, 8, 12])):
        words = draw.choice([1, 4, 6, 7, 8, 30, 60])
        weight = 1.0 if syntax == "none" else draw.choice([1.0, 1.1, 1.5])
        begins = syntax == "a1111" and i > 0 and draw.random() < 0.2
        pieces.append([random_text(draw, words), weight, begins])
    return pieces


def main():
    here = pathlib.Path(__file__).parent
    tokenizer = CLIPTokenizer.from_pretrained(ROOT / "deploy/demo-model/base/tokenizer")

    def tokenize(text):
        return tokenizer(text, add_special_tokens=False).input_ids

    draw = random.Random(1)
    cases = []
    for syntax in ["none", "a1111", "comfyui", "compel"] * 30:
        pieces = random_pieces(draw, syntax)
        if syntax == "compel":
            counts = cut_compel(tokenizer, pieces)
        elif syntax == "comfyui":
            counts = cut_comfyui(tokenize, pieces)
        else:
            counts = cut_a1111(tokenize, pieces)
        cases.append(json.dumps({
            "syntax": syntax, "pieces": pieces, "chunks": counts[:MOST_CHUNKS], "dropped": sum(counts[MOST_CHUNKS:])}))
    (here / "cut_cases.json").write_text("[\n " + ",\n ".join(cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
