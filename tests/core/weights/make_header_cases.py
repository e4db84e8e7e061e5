"""Writes header_cases.json: what the safetensors package says of odd headers.

Usage: python make_header_cases.py     (with safetensors==0.8.0)

A row is a header (each character a byte), how many bytes of data follow, and what the file then holds: dtype and shape of
each tensor, or null where the package refuses the file.
"""
import json
import pathlib
import struct

import safetensors

HERE = pathlib.Path(__file__).parent


def entry(name="a", dtype="F32", shape="[1]", offsets="[0,4]", more=""):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'


A = entry()
HEADERS = [
    # around the object
    ("{" + A + "}", 4), ("{" + A + "}   ", 4), ("{" + A + "}\n\t\r ", 4), (" {" + A + "}", 4), ("\n\t{" + A + "}", 4), ("{ \n" + A + "\t}", 4),
    ("{" + A + "}\0", 4), ("{" + A + "}\0}", 4), ("{" + A + "}x", 4), ("{" + A + "}{}", 4), ("\xef\xbb\xbf{" + A + "}", 4), ("\v{" + A + "}", 4),
    ("", 0), (" ", 0), ("{}", 0), ("[]", 0), ("null", 0), ("{", 0), ("{{}", 0), ("{" + A + ",}", 4), ("{/**/" + A + "}", 4),
    # metadata
    ('{"__metadata__":{}}', 0), ('{"__metadata__":null}', 0), ('{"__metadata__":null,' + A + "}", 4), ("{" + A + ',"__metadata__":{"a":"b"}}', 4),
    ('{"__metadata__":{"a":"b","a":"c"},' + A + "}", 4), ('{"__metadata__":"x"}', 0), ('{"__metadata__":[]}', 0), ('{"__metadata__":1}', 0),
    ('{"__metadata__":{"a":1}}', 0), ('{"__metadata__":{"a":null}}', 0), ('{"__metadata__":{"a":true}}', 0), ('{"__metadata__":{"a":{"b":"c"}}}', 0),
    ('{"__metadata__":{"a":["b"]}}', 0), ('{"__metadata__":{},"__metadata__":{}}', 0), ('{"__metadata__":null,"__metadata__":{}}', 0),
    ('{"__metadata__":{"a":"\xff"}}', 0), ("{" + entry("__metadata__") + "}", 4),
    # a name twice
    ("{" + A + "," + A + "}", 4), ("{" + A + "," + entry(offsets="[4,8]") + "}", 8), ("{" + entry(offsets="[4,8]") + "," + A + "}", 4),
    ("{" + entry(dtype="U8", offsets="[0,9]") + "," + A + "," + entry("b", offsets="[4,8]") + "}", 8), ("{" + A + "," + entry("\\u0061") + "}", 4),
    # fields
    ("{" + entry(more=',"x":1') + "}", 4), ("{" + entry(more=',"x":{"dtype":[1,null,true,-1.5e3,"a"],"x":{}},"x":"","y":null') + "}", 4),
    ("{" + entry(more=',"x":[1],"__metadata__":[[]]') + "," + entry("b", offsets="[4,8]") + "}", 8), ('{"a":{"x":{"shape":[2]},' + A[5:] + "}", 4),
    ("{" + entry(more=',"x":' + "[" * 120 + "]" * 120) + "}", 4), ("{" + entry(more=',"x":' + "[" * 126 + "]" * 126) + "}", 4),
    ("{" + entry(more=',"x":' + '{"x":' * 120 + "1" + "}" * 120) + "}", 4), ("{" + entry(more=',"x":' + "[" * 200 + "]" * 200) + "}", 4),
    ("{" + entry(more=',"x":') + "}", 4), ("{" + entry(more=',"dtype":"F32"') + "}", 4), ("{" + entry(more=',"shape":[1]') + "}", 4),
    ('{"a":{"shape":[1],"data_offsets":[0,4]}}', 4), ('{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4), ('{"a":{"dtype":"F32","shape":[1]}}', 4),
    ('{"a":{}}', 0), ('{"a":null}', 0), ('{"a":"x"}', 0), ('{"a":1}', 0), ('{"a":[]}', 0), ('{"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}}', 4),
    # offsets
    *(("{" + entry(offsets=offsets) + "}", 4) for offsets in (
        "[0]", "[0,4,8]", "[]", "[4,0]", "[-4,0]", "[0.0,4.0]", "[0,4e0]", "[-0,4]", "[0,99999999999999999999]", "[NaN,4]", '["0","4"]', "[null,4]", "[04,8]",
        "[0,8]", "[1,5]", "[[0],4]", '{"0":4}', "4")),
    ("{" + A + "}", 8), ("{" + A + "}", 2), ("{" + A + "}", 0), ("{}", 4), ("{" + A + "," + entry("b", offsets="[8,12]") + "}", 12),
    ("{" + entry(offsets="[4,8]") + "}", 8), ("{" + A + "," + entry("b", offsets="[2,6]") + "}", 8), ("{" + A + "," + entry("b") + "}", 4),
    ("{" + entry("b", offsets="[4,8]") + "," + A + "}", 8), ("{" + entry("b", "U8", offsets="[0,1]") + "," + entry(offsets="[1,5]") + "}", 5),
    # shapes, and tensors without elements
    *(("{" + entry(shape=shape) + "}", 4) for shape in ("[]", "[1,1,1]", "[2]", "[-1]", '"1"', "[1.0]", "[null]", "[[1]]", "[0]", "1",
                                                        "[4294967296,4294967296,4294967296]", "[" + ",".join("1" * 65) + "]", "[" + ",".join("1" * 999) + "]")),
    *(("{" + entry(shape=shape, offsets="[0,0]") + "}", 0) for shape in ("[0]", "[3,0,5]", "[4294967296,4294967296,4294967296,0]",
                                                                         "[0,4294967296,4294967296,4294967296]")),
    *(("{" + A + "," + entry("z", shape="[0]", offsets=offsets) + "}", 4) for offsets in ("[0,0]", "[4,4]", "[2,2]", "[8,8]")),
    ("{" + entry("z", shape="[0]", offsets="[4,4]") + "," + entry("b", offsets="[4,8]") + "," + A + "}", 8),
    # dtypes
    *(("{" + entry(dtype=dtype, shape="[8]", offsets=f"[0,{size}]") + "}", size) for dtype, size in (
        ("F64", 64), ("F16", 16), ("BF16", 16), ("I64", 64), ("I32", 32), ("I16", 16), ("I8", 8), ("U8", 8), ("U16", 16), ("U32", 32), ("U64", 64),
        ("BOOL", 8), ("C64", 64), ("F8_E4M3", 8), ("F8_E5M2", 8), ("F8_E8M0", 8), ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("F4", 4), ("F6_E2M3", 6),
        ("F6_E3M2", 6), ("f32", 32), ("F128", 128), ("", 32), ("FLOAT32", 32), ("F32 ", 32))),
    ("{" + entry(dtype="F4", offsets="[0,1]") + "}", 1), ("{" + entry(dtype="F6_E2M3", offsets="[0,1]") + "}", 1),
    # names
    ("{" + entry("\xff") + "}", 4), ("{" + entry("\xc3\xa9") + "}", 4), ("{" + entry("\\ud800") + "}", 4), ("{" + entry("\\ud83d\\ude00") + "}", 4),
    ("{" + entry("") + "}", 4), ("{" + entry("a\\u0000b") + "}", 4), ("{" + entry("a\x01b") + "}", 4), ("{" + entry("a\x00b") + "}", 4),
]


def read(header, size):
    text = header.encode("latin-1")
    try:
        tensors = safetensors.deserialize(struct.pack("<Q", len(text)) + text + bytes(size))
    except safetensors.SafetensorError:
        return None
    return {name: [tensor["dtype"], tensor["shape"]] for name, tensor in tensors}


def main():
    rows = [json.dumps(dict(header=header, data=size, tensors=read(header, size))) for header, size in HEADERS]
    (HERE / "header_cases.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
