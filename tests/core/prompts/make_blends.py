#!/usr/bin/env python3
"""Writes blend_cases.json: random prompts as pieces, and for each chunk the places that Compel hides from the encoder in
its further runs, with the part of these runs' states in the mean.

Usage: make_blends.py    with compel 2.5.1, torch and transformers installed

All of it is what the package does, in the modes that it has by default, with an encoder that notes what it is given.
"""

import json
import pathlib
import random
import types

import torch
from compel.embeddings_provider import EmbeddingsProvider, SplitLongTextMode
from make_cuts import MOST_CHUNKS, ROOT, random_text
from transformers import CLIPTokenizer

LENGTH = 77
WEIGHTS = [1.0, 1.0, 1.3, 0.9, 0.5, 0.05, 0.0]


class Provider(EmbeddingsProvider):
    """Notes the attention masks of all runs, and how much each state counts."""

    def __init__(self, tokenizer, truncate):
        self.masks, self.counts = [], []
        encoder = self.encode
        encoder_like = types.SimpleNamespace(device="cpu", dtype=torch.float32)
        super().__init__(tokenizer, encoder_like, truncate=truncate, split_long_text_mode=SplitLongTextMode.SENTENCES)
        self._encode_token_ids_to_embeddings = encoder

    def encode(self, ids, mask=None):
        if mask is not None:
            self.masks.append(mask[0].tolist())
        return torch.zeros(*ids.shape, 1)

    def apply_embedding_weights(self, embeddings, per_embedding_weights, normalize):
        self.counts = list(per_embedding_weights)
        return super().apply_embedding_weights(embeddings, per_embedding_weights, normalize)


def hidden_of(mask):
    """[begin, end) of the zeros; None: there are none."""
    if 0 not in mask:
        return None
    begin = mask.index(0)
    end = LENGTH - mask[::-1].index(0)
    assert not any(mask[begin:end])
    return [begin, end]


def blends_of(tokenizer, pieces, truncate):
    provider = Provider(tokenizer, truncate)
    provider.get_embeddings_for_weighted_prompt_fragments(
        [[text for text, _ in pieces]], [[weight for _, weight in pieces]])
    runs, total = len(provider.counts), sum(provider.counts)
    count = len(provider.masks) // runs  # chunks
    chunks = [[] for _ in range(count)]
    for run in range(runs):
        for chunk in range(count):
            hidden = hidden_of(provider.masks[run * count + chunk])
            if hidden:
                chunks[chunk].append([*hidden, provider.counts[run] / total])
    return chunks


def random_pieces(draw):
    pieces = []
    for _ in range(draw.choice([1, 3, 6, 10])):
        weight = draw.choice([weight for weight in WEIGHTS if not pieces or weight != pieces[-1][1]])
        pieces.append([random_text(draw, draw.choice([1, 2, 4, 8, 30, 80])), weight])
    return pieces


def main():
    here = pathlib.Path(__file__).parent
    tokenizer = CLIPTokenizer.from_pretrained(ROOT / "deploy/demo-model/base/tokenizer")
    draw = random.Random(1)
    cases = []
    while len(cases) < 80:
        pieces, truncate = random_pieces(draw), draw.random() < 0.5
        chunks = blends_of(tokenizer, pieces, truncate)
        if len(chunks) > MOST_CHUNKS:
            continue  # Compel has no limit
        cases.append(json.dumps({"truncate": truncate, "pieces": pieces, "chunks": chunks}))
    (here / "blend_cases.json").write_text("[\n " + ",\n ".join(cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
