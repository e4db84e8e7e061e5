#!/usr/bin/env python3
"""Writes compel_cases.json: prompts, and the pieces that Compel makes of them.

Usage: make_cases.py    with compel 2.5.1 and pyparsing installed; the package's parser is loaded alone, without torch.
"""

import importlib.metadata
import importlib.util
import json
import pathlib

PROMPTS = [
    "", "  ", "a cat", "a cat, a dog", "cat,dog,,bird", "a++ cat", "a cat-", "a--", "cat+-", "(a cat)+ on a mat",
    "(a cat)1.3 on a mat", "(a cat)0.5, (a dog)2", "(a cat)1.3girl", "(a (black cat)+)+", "((a)-)-", "(a (b)1.5 c)0.5 d",
    "(a, b. c)+", "()+ a", "( )1.5", "(a b)", "(a", "a)", "(a (b)+ c", "((a)+", "a+b", "a + b", "a ++", "+", "-a", "a-b", "a-b-",
    "blue-green+ 3-4+", "\"a cat\"+", "\"a \\\"b\\\" c\"1.2", "\"a", "\"\"+ a", "\"(a b)+ c\"-", "\\(a\\)", "(\\(a\\) b)+", "\\\\(a", "a\\+ b",
    "(a: b)+", "(a = b)+", "a:1.2", "(a:1.2)", "[a]", "caf\u00e9+ \u732b-", "a\nb+ c", "(a\nb)+", "photo.jpg+", "(f/1.8)+", "1.5 2+", "a+++++",
    "a ((b)) c", "(((((a)+)+)+)+)+", "(a+ b-)1.5", ".5", "(a).5", "(a)1.", "(a)-1",
]


def main():
    here = pathlib.Path(__file__).parent
    package = importlib.metadata.distribution("compel")
    spec = importlib.util.spec_from_file_location("prompt_parser", package.locate_file("compel/prompt_parser.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parser = module.PromptParser()
    cases = []
    for prompt in PROMPTS:
        fragments = [f for part in parser.parse_conjunction(prompt).prompts for f in part.children]
        pieces = [[f.text, f.weight] for f in fragments]
        cases.append(json.dumps({"prompt": prompt, "pieces": pieces or [["", 1.0]]}))
    text = "[\n " + ",\n ".join(cases) + "\n]\n"
    (here / "compel_cases.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
