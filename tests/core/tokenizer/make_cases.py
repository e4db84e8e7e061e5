"""Writes cases.json: what transformers' CLIPTokenizer makes of many texts with the demo checkpoint's vocabulary.

Usage: python make_cases.py     (with transformers==5.24.0 and tokenizers==0.23.3)

Each group is one tokenizer: a folder of the demo checkpoint, with other configuration files where the group has them
("files"). With "saved" it has a tokenizer.json: saved/FOLDER.json, which is what transformers saves of that folder, with
this changed (a JSON merge patch); and vocab.json and merges.txt beside it only where the group is "beside". A group that
is the "same_saved" has the same ids with that file as without.
"""
import json
import pathlib
import random
import shutil
import tempfile
import unicodedata

from transformers import CLIPTokenizer

HERE = pathlib.Path(__file__).parent
DEMO = HERE.parents[2] / "deploy/demo-model/base"
LENGTH = 77
START, END = "<|startoftext|>", "<|endoftext|>"

PICKED = [
    "", " ", "\t\n ", "a", "!", "!!!", "A Large YELLOW star!!! on a purple background.",
    # contractions, also in capitals and where none belongs
    "it's they'll we've I'm you'd isn't IT'S THEY'LL 's 't're''ve '", "rock'n'roll o'clock 'tis", "\u2019s \u02bcs 's'",
    # the special tokens as text
    START, END, f"a{START}b{END}c", f"{END}{END}", f"<|STARTOFTEXT|> <|EndOfText|>", "<|startoftext| > <|end", f"!{END}!",
    f"e\u0301{START}\u0301", f"x {END} y", "<|StartOfText|><|endOFtext|>!!", "<<|endoftext|>>",
    # case: no final sigma, a dotted capital I, a capital sharp s, titlecase, letters without case
    "\u03a3\u039f\u03a6\u039f\u03a3 \u03c2\u03c3", "\u0130stanbul I\u0307 \u0131", "STRASSE stra\u00dfe \u1e9e", "\u01c5\u01c8\u01cb", "\u2126\u212a\u212b",
    "\U00010400\U0001e900\u10a0\u13a0\uab70", "\u24b6\u2160\uff21",
    # composition
    "cafe\u0301 caf\u00e9", "q\u0323\u0307 q\u0307\u0323", "\u1e9b\u0323", "\u1112\u1161\u11ab \ud55c", "\uac00\u11a8", "\u0958 \u0915\u093c", "\u0344 \u0340\u0341",
    "\U0001d15e\U0001d160", "\ufb1d\ufb2a \u2adc", "\uf900\U0002f800", "a\u0301\u0323\u0302\u0331\u0335", "\u0300a", "\u0b47\u0b56\u0b3e", "=\u0338 \u226e",
    "\U00011935\U00011930 \U00011938", "a\u0301\u08ca\u0323 a\u0323\u1ac0\u0301 a\u1ac0\u0323",
    # space of every kind, and what only looks like it
    "a\u00a0b\u3000c\u2003d\u1680e\u2028f\u2029g\u202fh\u205fi", "a\x85b\x0bc\x0cd\re", "a\x1cb\x1db\x1eb\x1fb", "a\u200bb\u180eb\ufeffb\u2060b\u00adb",
    # control and unassigned characters
    "\x00a\x01 \x7f\x80\x9f", "\ufffe\uffff\U0010ffff \ue000\uf8ff", "\u0378\u0530", "\ufffd",
    # numbers
    "1234567890 3.14159 1,000,000 1e-5", "\u0663\u0664\u06f5 \u0967\u0968 \uff11\uff12 \U0001d7d8", "\u00b2\u00b3\u00bd \u2167\u2180 \u2460\u3220 \u4e09", "8k 4K 1st",
    # emoji
    "\U0001f680\U0001f9d1\u200d\U0001f680", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1eb\U0001f1f7 1\ufe0f\u20e3", "\U0001f44d\U0001f3fd",
    # scripts
    "\u4e00\u53ea\u732b\u5750\u5728\u6708\u4eae\u4e0a", "\u732b\u304c\u6708\u306e\u4e0a\u306b \u30ab\u3099 \uff76\uff9e", "\uace0\uc591\uc774\uac00 \ub2ec", "\u0421\u043e\u0431\u0430\u043a\u0430 \u041d\u0410",
    "\u0627\u0644\u0642\u0637 \u0639\u0644\u0649", "\u05d7\u05ea\u05d5\u05dc \u05e9\u05c1", "\u0e41\u0e21\u0e27\u0e19\u0e49\u0e33", "\u092c\u093f\u0932\u094d\u0932\u0940", "\u0bae\u0bca", "\u1019\u103c\u1014\u103a", "\u0f40\u0f71\u0f72", "\u1f6e\u1fbe",
    # younger than Unicode 15
    "\U0002ebf0\U0002ee5d\U0002ee5e", "\ua7cb\ua7cc\ua7ce\ua7da\ua7dc\u1c89", "\U00010d50\U00010d65\U00010d41\U00016ea0\U00016eb8", "\U000113c2\U000113b8 \U00016d67\U00016d63",
    # long ones: exactly full, one too many, far too many, one word
    "a " * 75, "a " * 76, "a photo of an astronaut, " * 60, "x" * 300, "\u732b" * 100, "1" * 200, f"{END}" * 100,
]

ADDED_TEXTS = [
    "<|ENDOFTEXT|>", f"a{END}b", "a !b! c", "<|Endo\u0301ftext|>", "Cat-Toy cat-toy CAT-TOY xcat-toyx", f"a  {END}  b", "[PAD] <Cat> <CAT> <cat>x",
    f"e\u0301{START}\u0301", "<|StartOfText|>\u0301", "!!!",
]


def added(content, normalized=True, **more):
    return dict(content=content, lstrip=False, normalized=normalized, rstrip=False, single_word=False, **more)


TYPED = {"__type": "AddedToken"}
# Configuration files that replace those of the demo: as published checkpoints have them, and what else transformers reads.
CONFIGURATIONS = [
    dict(tokenizer_config=dict(bos_token=added(START, **TYPED), eos_token=added(END, **TYPED), unk_token=added(END, **TYPED), pad_token=END, model_max_length=77),
         special_tokens_map=dict(bos_token=added(START), eos_token=added(END), pad_token=END, unk_token=added(END))),
    dict(tokenizer_config=dict(bos_token=added(START, **TYPED), eos_token=added(END, **TYPED), unk_token=added(END, **TYPED), pad_token="!", model_max_length=77),
         special_tokens_map=dict(bos_token=added(START), eos_token=added(END), pad_token="!", unk_token=added(END))),
    dict(tokenizer_config=dict(
        added_tokens_decoder={"0": added("!", False, special=True), "626": added(START, special=True), "627": added(END, special=True)},
        bos_token=START, eos_token=END, unk_token=END, pad_token="!", model_max_length=77), special_tokens_map=dict(pad_token=END)),
    dict(tokenizer_config=dict(added_tokens_decoder={"628": added("Cat-Toy", special=False)}, model_max_length=77)),
    dict(tokenizer_config=dict(added_tokens_decoder={
        "700": added("<Cat>", special=False), "701": added("<CAT>", False, special=False), "699": added("<cat>x", False, special=False)})),
    dict(special_tokens_map=dict(pad_token=added("[PAD]")), added_tokens={"[PAD]": 628, "Cat-Toy": 629}),
    dict(tokenizer_config=dict(split_special_tokens=True)),
    dict(tokenizer_config=dict(extra_special_tokens=["toy"]), special_tokens_map=dict(extra_special_tokens=[added("cat")])),
    dict(tokenizer_config=dict(model_max_length=6, pad_token=None)),
    dict(tokenizer_config=dict(eos_token=added(END, True, **TYPED), unk_token=added(END, False, **TYPED), pad_token="!")),
    dict(),
]

WORD_TEXTS = [
    "cat", "a cat.", "cats cat scat", "cat_cat -cat- cat's", "cat\u0301 \u0301cat", "cat\u200dcat \u24b6cat", "1cat cat2 \u2167cat \u00b2cat", "catcat cat",
    "cat\u203fcat \U0001f170cat\U0001f18acat", "Toy toy TOY toys", "a  cat  toy", "\u3000cat\u3000b", "\u4e00cat\u4e00", "cat\ufe0f toy\ufe0f", "dogcatdog cat dog",
]


def token(number, content, **flags):
    return dict(dict(id=number, **added(content, False, special=True)), **flags)


ENDS = [token(626, START), token(627, END)]
PATTERN = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
SPLIT = dict(type="Split", pattern=dict(Regex=PATTERN), behavior="Removed", invert=True)
BYTES = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True)
# Changes to the saved tokenizer.json, configuration files, and a flag for vocab.json and merges.txt beside it.
SAVED = [
    (dict(added_tokens=ENDS + [token(628, "Cat-Toy", normalized=True, special=False), token(629, "[PAD]")]), None, False),
    (dict(added_tokens=ENDS + [token(628, "cat", single_word=True), token(629, "toy", single_word=True, normalized=True)]), None, False),
    (dict(added_tokens=ENDS + [token(628, "cat", lstrip=True, rstrip=True), token(629, "toy", rstrip=True, normalized=True)]), None, False),
    (dict(added_tokens=ENDS + [token(628, "cat", single_word=True), token(629, "cats", single_word=True), token(630, "at")]), None, False),
    (dict(added_tokens=ENDS + [token(700, "<Cat>", special=False), token(699, "<CAT>", special=False), token(0, "!")]), dict(), False),
    (dict(added_tokens=ENDS + [token(628, "[PAD]")]), dict(tokenizer_config=dict(pad_token="[PAD]", model_max_length=9)), False),
    (dict(added_tokens=ENDS + [token(628, "cat")]), dict(tokenizer_config=dict(added_tokens_decoder={"628": added("toy", special=False)})), False),
    (dict(added_tokens=ENDS + [token(629, "cat")]), dict(special_tokens_map=dict(pad_token="!"), added_tokens={"toy": 629, "[PAD]": 628}), False),
    (dict(added_tokens=ENDS + [token(628, "cat")]), dict(tokenizer_config=dict(split_special_tokens=True)), False),
    (dict(added_tokens=[]), dict(tokenizer_config=dict(pad_token="!")), False),
    (dict(added_tokens=ENDS + [token(628, "cat")]), None, True),
    (dict(normalizer=dict(normalizers=[dict(type="NFC"), dict(type="Lowercase")]), pre_tokenizer=dict(pretokenizers=[SPLIT, BYTES])), dict(), False),
    (dict(pre_tokenizer=BYTES), dict(), False),
    (dict(model=dict(dropout=0.1, unk_token=None, fuse_unk=True, continuing_subword_prefix=None)), dict(), False),
    (dict(post_processor=dict(type="BertProcessing", sep=["!", 0], cls=["!", 0], trim_offsets=None, add_prefix_space=None)), dict(), False),
    (dict(truncation=dict(direction="Right", max_length=5, strategy="LongestFirst", stride=0),
          padding=dict(strategy=dict(Fixed=9), direction="Right", pad_to_multiple_of=None, pad_id=1, pad_type_id=0, pad_token="!")), dict(), False),
]


def of_every_category(rng):
    """For each general category, a few strings that mix its characters with letters, digits and punctuation."""
    by_category = {}
    for point in range(0x110000):
        character = chr(point)
        category = unicodedata.category(character)
        if category != "Cs":
            by_category.setdefault(category, []).append(character)
    for _, characters in sorted(by_category.items()):
        for _ in range(4):
            yield "".join(rng.choice(characters) + rng.choice(["", "", "a", "Z", "7", "!", " ", "\u0301"]) for _ in range(6))


def random_texts(rng, count):
    """Strings that hit several rules at once."""
    marks = [chr(c) for c in [*range(0x300, 0x346), 0x93C, 0x94D, 0x3099, 0x1DFA, 0x302A, 0x16FF0, 0x8CA]]
    bases = [*"aeioukAEIOUK", "\u1100", "\u1161", "\u11a8", "\uac00", "\u0915", "\u30ab", "\u03a3", "\u0130", "\u4e00", "<", "1", "'", " ", "\u3000"]
    pieces = [START, END, "<|", "|>", "'s", "'LL", "don't", "cat", "Star", "12", "\U0001f469\u200d\U0001f680", "\x85", "\x00"]
    for _ in range(count):
        yield "".join(
            rng.choice(bases) + "".join(rng.choices(marks, k=rng.choice([0, 1, 3]))) if rng.random() < 0.6 else rng.choice(pieces)
            for _ in range(rng.randint(1, 10)))


def encode(tokenizer, text):
    ids = tokenizer(text).input_ids
    limit = min(LENGTH, tokenizer.model_max_length)
    if len(ids) <= limit:
        return dict(text=text, ids=ids, dropped=0)
    return dict(text=text, ids=ids[:limit - 1] + ids[-1:], dropped=len(ids) - limit)


def merge(value, patch):
    """Applies a patch as RFC 7396 does."""
    if not isinstance(patch, dict):
        return patch
    value = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        value[key] = merge(value.get(key), change)
    return {key: change for key, change in value.items() if change is not None}


def save(folder):
    """Saves a folder of the demo as transformers does, without the space between."""
    with tempfile.TemporaryDirectory() as directory:
        load(folder, None).save_pretrained(directory)
        whole = json.loads(pathlib.Path(directory, "tokenizer.json").read_text())
        (HERE / "saved" / (folder + ".json")).write_text(json.dumps(whole, separators=(",", ":")) + "\n")


def load(folder, files, saved=None, beside=False):
    """The tokenizer of a folder of the demo, with its configuration files replaced by `files` unless that is None."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(DEMO / folder, directory, dirs_exist_ok=True, copy_function=shutil.copyfile)
        if files is not None:
            for name in ("tokenizer_config", "special_tokens_map", "added_tokens"):
                path = pathlib.Path(directory, name + ".json")
                path.unlink(missing_ok=True)
                if name in files:
                    path.write_text(json.dumps(files[name]))
        if saved is not None:
            whole = json.loads((HERE / "saved" / (folder + ".json")).read_text())
            pathlib.Path(directory, "tokenizer.json").write_text(json.dumps(merge(whole, saved)))
            for name in () if beside else ("vocab.json", "merges.txt"):
                pathlib.Path(directory, name).unlink()
        return CLIPTokenizer.from_pretrained(directory)


def encode_all(tokenizer, texts):
    pad = tokenizer.pad_token_id
    return dict(pad_id=tokenizer.eos_token_id if pad is None else pad, cases=[encode(tokenizer, text) for text in texts])


def group(folder, files, texts):
    return dict(folder=folder, files=files, **encode_all(load(folder, files), texts))


def merges_as_text():
    merges = json.loads((HERE / "saved/tokenizer.json").read_text())["model"]["merges"]
    return [" ".join(pair) for pair in merges]


def group_same_saved(folder, texts):
    entry = group(folder, None, texts)
    if encode_all(load(folder, None, saved={}), texts) != dict(pad_id=entry["pad_id"], cases=entry["cases"]):
        raise SystemExit(f"transformers makes something else of the saved tokenizer.json of {folder}")
    return dict(same_saved=True, **entry)


def group_saved(folder, saved, files, beside, texts):
    return dict(folder=folder, saved=saved, files=files, beside=beside, **encode_all(load(folder, files, saved, beside), texts))


def main():
    rng = random.Random(7)
    texts = PICKED + list(of_every_category(rng)) + list(random_texts(rng, 200))
    for folder in ("tokenizer", "tokenizer_2"):
        save(folder)
    groups = [group_same_saved("tokenizer", texts), group_same_saved("tokenizer_2", PICKED)]
    groups += [group("tokenizer", files, ADDED_TEXTS) for files in CONFIGURATIONS]
    groups += [group_saved("tokenizer", saved, files, beside, ADDED_TEXTS + WORD_TEXTS) for saved, files, beside in SAVED]
    groups += [group_saved("tokenizer", dict(model=dict(merges=merges_as_text())), None, False, PICKED)]
    lines = []
    for entry in groups:
        head = {key: value for key, value in entry.items() if key != "cases"}
        cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in entry["cases"])
        lines.append(json.dumps(head)[:-1] + ', "cases": [\n' + cases + "\n]}")
    (HERE / "cases.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
