"""The demo checkpoint's byte-pair vocabulary in CLIP's format, and captions as token ids.

CLIP's order: a symbol for each of the 256 bytes, the same symbols at the end of a word, the merges, two special tokens.
Here the merges are just enough to make one token of every word that a caption may hold.

Usage: python vocabulary.py --pad TOKEN FOLDER    writes the four files of a CLIPTokenizer
"""

import argparse
import collections
import functools
import json
import pathlib

import scenes

BEGIN = "<|startoftext|>"
END = "<|endoftext|>"
WORD_END = "</w>"
LENGTH = 77

# SDXL's first tokenizer pads with the end token, its second one with token 0.
FIRST_PAD = END
SECOND_PAD = "!"


def byte_symbols():
    """A printable character for each byte: itself where Latin-1 can print it, else the next one from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = 256 - len(printable)
    return [chr(code) for code in [*printable, *range(0x100, 0x100 + others)]]


def merge_pair(symbols, pair):
    """`symbols` with each occurrence of `pair` joined, from left to right."""
    merged = []
    for symbol in symbols:
        # A symbol that ends in a joined pair is longer than its second half, so that it cannot be joined twice.
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


def learn_merges(words):
    """The merges, most frequent pair first, that make one symbol of each word."""
    spellings = [[*word[:-1], word[-1] + WORD_END] for word in words]
    merges = []
    while True:
        pairs = collections.Counter(pair for symbols in spellings for pair in zip(symbols, symbols[1:]))
        if not pairs:
            return merges
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        spellings = [merge_pair(symbols, best) for symbols in spellings]


@functools.cache
def build():
    """The vocabulary, {token: id}, and its merges."""
    symbols = byte_symbols()
    merges = learn_merges(sorted(scenes.caption_words()))
    tokens = [*symbols, *(symbol + WORD_END for symbol in symbols), *("".join(pair) for pair in merges), BEGIN, END]
    return {token: number for number, token in enumerate(tokens)}, merges


def encode(caption, pad):
    """The LENGTH token ids of a caption that is made of caption words."""
    ids, _ = build()
    tokens = [BEGIN, *(word + WORD_END for word in caption.split()), END]
    return [ids[token] for token in tokens + [pad] * (LENGTH - len(tokens))]


def save(folder, pad):
    """Writes what transformers' CLIPTokenizer reads."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ids, merges = build()
    special = {"bos_token": BEGIN, "eos_token": END, "unk_token": END, "pad_token": pad}
    settings = {
        "add_prefix_space": False,
        "do_lower_case": True,
        "errors": "replace",
        "model_max_length": LENGTH,
        "tokenizer_class": "CLIPTokenizer",
    }
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({**special, **settings}, indent=2), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pad", choices=[FIRST_PAD, SECOND_PAD], default=FIRST_PAD)
    parser.add_argument("folder")
    arguments = parser.parse_args()
    save(arguments.folder, arguments.pad)


if __name__ == "__main__":
    main()
