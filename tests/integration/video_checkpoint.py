"""A checkpoint of Stable Video Diffusion that is small: its configurations are those of tests/golden, its weights are drawn here."""

import array
import json
import math
import pathlib
import random
import zlib

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
NAME = "svd"
BUCKET = "64x64x5"  # frames of which the CPU draws in a moment
CHUNK = 2


def tensor(name, shape):
    """Seeded by its name: norms about 1, all else about 0, so that what is drawn stays finite."""
    chance = random.Random(zlib.crc32(name.encode()))
    count = math.prod(shape)
    is_gain = len(shape) == 1 and not name.endswith("bias")
    scale = 0.1 if len(shape) == 1 else 1 / math.sqrt(count / shape[0])
    values = array.array("f", (scale * (2 * chance.random() - 1) * math.sqrt(3) + is_gain for _ in range(count)))
    return values.tobytes()


def write_weights(file, shapes):
    header, parts, size = {}, [], 0
    for name, shape in shapes.items():
        parts.append(tensor(name, shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, size + len(parts[-1])]}
        size += len(parts[-1])
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def widen(described, shapes):
    """Heads are as large as those of published checkpoints, and colours are weighed as theirs are: what a single file is taken
    for that does not say so."""
    unet = described["networks"]["unet"]
    unet["block_out_channels"] = [2 * channels for channels in unet["block_out_channels"]]
    described["networks"]["image_encoder"]["num_attention_heads"] = 1
    described["feature_extractor"].pop("image_mean")
    described["feature_extractor"].pop("image_std")
    shapes["unet"] = {name: [size if size % 32 else 2 * size for size in shape] for name, shape in shapes["unet"].items()}


def write_checkpoint(folder, wide=False):
    """As StableVideoDiffusionPipeline.save_pretrained does."""
    described = json.loads((GOLDEN / "checkpoints.json").read_text())[NAME]
    shapes = json.loads((GOLDEN / "checkpoints" / f"{NAME}.parameters.json").read_text())
    if wide:
        widen(described, shapes)
    folder.mkdir()
    (folder / "model_index.json").write_text(json.dumps(described["model_index"]))
    files = {"scheduler/scheduler_config.json": described["scheduler"],
             "feature_extractor/preprocessor_config.json": described["feature_extractor"],
             **{f"{component}/config.json": config for component, config in described["networks"].items()}}
    for path, content in files.items():
        (folder / path).parent.mkdir()
        (folder / path).write_text(json.dumps(content))
    for component, config in described["networks"].items():
        name = "diffusion_pytorch_model" if "_class_name" in config else "model"
        write_weights(folder / component / f"{name}.safetensors", shapes[component])
    return folder
