"""Makes the golden results with diffusers and transformers, in float32 on the CPU. README.md describes the files.

Usage: python make.py --model DIR --cases DIR --out DIR [--full]
                      [--case PREFIX] [--only pictures,networks,tokens,losses,likeness]

Every case is data: pictures.json (with checkpoints.json, controls.json and ip_adapters.json), networks.json, tokens.json and
likeness.json in --cases say what to compute.
"""
import argparse
import json
import math
import os
import pathlib
import tempfile
import zlib

import diffusers
import numpy
import torch
from diffusers import (AutoPipelineForImage2Image, AutoPipelineForInpainting, StableDiffusionControlNetImg2ImgPipeline,
                       StableDiffusionControlNetPipeline, StableDiffusionPipeline, StableDiffusionXLControlNetImg2ImgPipeline,
                       StableDiffusionXLControlNetPipeline, StableDiffusionXLControlNetUnionImg2ImgPipeline,
                       StableDiffusionXLControlNetUnionPipeline, StableDiffusionXLImg2ImgPipeline, StableDiffusionXLPipeline)
from diffusers.utils.torch_utils import randn_tensor
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import (CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer, CLIPVisionConfig,
                          CLIPVisionModelWithProjection)

TOKENS = 77

# All of CLIP's vocabulary that latentd ships.
MERGES = pathlib.Path(__file__).resolve().parents[2] / "third_party/clip/merges.txt"

# Fields of a picture case that are diffusers' parameters of the same name.
PARAMETERS = {
    "prompt", "prompt_2", "negative_prompt", "negative_prompt_2", "num_inference_steps", "guidance_scale",
    "guidance_rescale", "eta", "clip_skip", "original_size", "crops_coords_top_left", "target_size",
    "negative_original_size", "negative_target_size", "negative_crops_coords_top_left", "aesthetic_score",
    "negative_aesthetic_score", "timesteps", "sigmas", "padding_mask_crop",
}
TEXT_PARAMETERS = {"prompt", "prompt_2", "negative_prompt", "negative_prompt_2", "clip_skip"}
# Components of a pipeline, with the weight of a case's LoRA that is theirs.
LORA_WEIGHTS = {"unet": "unet_weight", "text_encoder": "text_encoder_weight", "text_encoder_2": "text_encoder_weight"}
# The refiner has one text encoder and no clip_skip.
NOT_OF_REFINER = {"prompt_2", "negative_prompt_2", "clip_skip"}


def generator(seed):
    return torch.Generator("cpu").manual_seed(seed)


def noise(shape, seed):
    return torch.randn(shape, generator=generator(seed))


def draw_float32_noise_always():
    """Makes torch.randn draw float32 numbers for every dtype: its generator gives other numbers for another one."""
    draw = torch.randn

    def randn(*size, dtype=None, **options):
        return draw(*size, dtype=torch.float32, **options).to(dtype or torch.float32)

    torch.randn = randn


# Networks


def disk_name(module, name):
    """A tensor's name as published checkpoints spell it: transformers 5 drops the prefix text_model. in memory."""
    is_text = type(module).__name__.startswith("CLIPText")
    prefixed = name.startswith(("text_model.", "text_projection."))
    return f"text_model.{name}" if is_text and not prefixed else name


def synthetic_weight(name, shape):
    """A tensor by its name, so that two programs can make the same weights without a file."""
    values = noise(shape, zlib.crc32(name.encode()))
    if name.endswith("bias"):
        return 0.1 * values
    if len(shape) == 1:
        return 1 + 0.1 * values
    return values * (math.prod(shape) / shape[0]) ** -0.5


@torch.no_grad()
def fill_with_synthetic_weights(module):
    for name, parameter in module.named_parameters():
        parameter.copy_(synthetic_weight(disk_name(module, name), parameter.shape))
    return module.eval()


def unet_inputs(case, dtype):
    """Inputs of a UNet and its ControlNets, and the part of them that diffusers calls added."""
    config, rows, (height, width) = case["config"], case["rows"], case["size"]
    inputs = {
        "sample": noise((rows, config.get("in_channels", 4), height, width), 1).to(dtype),
        "timestep": torch.tensor(case["timesteps"], dtype=torch.float32),
        "encoder_hidden_states": noise((rows, TOKENS, config["cross_attention_dim"]), 2).to(dtype),
    }
    added = None
    if config.get("addition_embed_type") == "text_time":
        ids = case["time_ids"]
        features = config["projection_class_embeddings_input_dim"] - len(ids) * config["addition_time_embed_dim"]
        added = {
            "text_embeds": noise((rows, features), 3).to(dtype),
            "time_ids": torch.tensor([ids] * rows, dtype=torch.float32),
        }
    return inputs, added


def skip_shapes(case):
    """Shapes of a UNet's skip connections, and of its middle."""
    config, rows, (height, width) = case["config"], case["rows"], case["size"]
    channels = config["block_out_channels"]
    shapes = [(rows, channels[0], height, width)]
    for i, own in enumerate(channels):
        shapes += [(rows, own, height, width)] * config["layers_per_block"]
        if i + 1 < len(channels):
            height, width = (height + 1) // 2, (width + 1) // 2
            shapes.append((rows, own, height, width))
    return shapes + [(rows, channels[-1], height, width)]


def named_residuals(residuals):
    return {f"residual.{i}": residual for i, residual in enumerate(residuals)}


def evaluate_unet(case, dtype=torch.float32):
    network = fill_with_synthetic_weights(diffusers.UNet2DConditionModel(**case["config"])).to(dtype)
    inputs, added = unet_inputs(case, dtype)
    residuals = []
    if case.get("residuals"):
        residuals = [noise(shape, 10 + i).to(dtype) for i, shape in enumerate(skip_shapes(case))]
    given = {"down_block_additional_residuals": residuals[:-1],
             "mid_block_additional_residual": residuals[-1]} if residuals else {}
    out = network(**inputs, **given, added_cond_kwargs=added).sample
    return network, {**inputs, **(added or {}), **named_residuals(residuals)}, {"out": out}


def evaluate_control_net(case, dtype=torch.float32):
    rows, (height, width) = case["rows"], case["size"]
    scale = 2 ** (len(case["config"].get("conditioning_embedding_out_channels", (16, 32, 96, 256))) - 1)
    network = fill_with_synthetic_weights(diffusers.ControlNetModel(**case["config"])).to(dtype)
    inputs, added = unet_inputs(case, dtype)
    image = (noise((rows, 3, scale * height, scale * width), 4).tanh() / 2 + 0.5).to(dtype)
    down, mid = network(**inputs, controlnet_cond=image, added_cond_kwargs=added, return_dict=False)
    return network, {**inputs, **(added or {}), "image": image}, named_residuals([*down, mid])


def evaluate_union(case, dtype=torch.float32):
    """Rows have one image and one type: the transformer over an image's mean attends from row to row."""
    rows, (height, width) = case["rows"], case["size"]
    scale = 2 ** (len(case["config"]["conditioning_embedding_out_channels"]) - 1)
    network = fill_with_synthetic_weights(diffusers.ControlNetUnionModel(**case["config"])).to(dtype)
    inputs, added = unet_inputs(case, dtype)
    image = (noise((1, 3, scale * height, scale * width), 4).tanh() / 2 + 0.5).to(dtype).repeat(rows, 1, 1, 1)
    types = torch.zeros((rows, network.config.num_control_type), dtype=dtype)
    types[:, case["mode"]] = 1
    down, mid = network(**inputs, controlnet_cond=[image], control_type=types, control_type_idx=[case["mode"]],
                        added_cond_kwargs=added, return_dict=False)
    return network, {**inputs, **(added or {}), "image": image, "types": types}, named_residuals([*down, mid])


def evaluate_autoencoder(case, dtype=torch.float32):
    config, rows, (height, width) = case["config"], case["rows"], case["size"]
    network = fill_with_synthetic_weights(getattr(diffusers, case["class"])(**config)).to(dtype)
    inputs = {
        "image": noise((rows, 3, 8 * height, 8 * width), 1).tanh().to(dtype),
        "latents": noise((rows, config.get("latent_channels", 4), height, width), 2).to(dtype),
    }
    encoded = network.encode(inputs["image"])
    outputs = {"decoded": network.decode(inputs["latents"]).sample}
    if case["class"] == "AutoencoderKL":
        outputs["moments"] = encoded.latent_dist.parameters
    else:
        outputs["encoded"] = encoded.latents
    return network, inputs, outputs


def evaluate_text_encoder(case, dtype=torch.float32):
    classes = {"CLIPTextModel": CLIPTextModel, "CLIPTextModelWithProjection": CLIPTextModelWithProjection}
    network = fill_with_synthetic_weights(classes[case["class"]](CLIPTextConfig(**case["config"]))).to(dtype)
    inputs = {"input_ids": torch.tensor(case["input_ids"])}
    result = network(**inputs, output_hidden_states=True)
    # Only the last two states of whole networks are kept: those that pipelines read.
    first = len(result.hidden_states) - 2 if case.get("full") else 0
    outputs = {f"hidden_states.{i}": state for i, state in enumerate(result.hidden_states) if i >= first}
    if case["class"] == "CLIPTextModelWithProjection":
        outputs["pooled"] = result.text_embeds
    else:
        outputs["pooled"] = result.pooler_output
        outputs["last_hidden_state"] = result.last_hidden_state
    return network, inputs, outputs


def evaluate_video_unet(case, dtype=torch.float32):
    config, rows, frames, (height, width) = case["config"], case["rows"], case["frames"], case["size"]
    network = fill_with_synthetic_weights(diffusers.UNetSpatioTemporalConditionModel(**config)).to(dtype)
    inputs = {
        "sample": noise((rows, frames, config.get("in_channels", 8), height, width), 1).to(dtype),
        "timestep": torch.tensor(case["timesteps"], dtype=torch.float32),
        "encoder_hidden_states": noise((rows, 1, numpy.max(config["cross_attention_dim"])), 2).to(dtype),
        "time_ids": torch.tensor(case["time_ids"], dtype=torch.float32),
    }
    given = {name: tensor for name, tensor in inputs.items() if name != "time_ids"}
    return network, inputs, {"out": network(**given, added_time_ids=inputs["time_ids"]).sample}


def evaluate_video_autoencoder(case, dtype=torch.float32):
    config, frames, (height, width) = case["config"], case["frames"], case["size"]
    network = fill_with_synthetic_weights(diffusers.AutoencoderKLTemporalDecoder(**config)).to(dtype)
    inputs = {
        "image": noise((1, 3, 8 * height, 8 * width), 1).tanh().to(dtype),
        "latents": noise((frames, config.get("latent_channels", 4), height, width), 2).to(dtype),
    }
    outputs = {
        "moments": network.encode(inputs["image"]).latent_dist.parameters,
        "decoded": network.decode(inputs["latents"], num_frames=frames).sample,
    }
    return network, inputs, outputs


def evaluate_image_encoder(case, dtype=torch.float32):
    config = case["config"]
    network = fill_with_synthetic_weights(CLIPVisionModelWithProjection(CLIPVisionConfig(**config))).to(dtype)
    inputs = {"pixel_values": noise((case["rows"], 3, config["image_size"], config["image_size"]), 1).to(dtype)}
    return network, inputs, {"image_embeds": network(**inputs).image_embeds}


def projection_shapes(config):
    """Tensors of an IP-Adapter's projection as h94's files name them, with their shapes."""
    features, text = config["image_features"], config["text_features"]
    if config["kind"] == "base":
        return {"proj.weight": [config["tokens"] * text, features], "proj.bias": [config["tokens"] * text],
                "norm.weight": [text], "norm.bias": [text]}
    width, inner, hidden = config["width"], 64 * config["heads"], config["hidden"]
    shapes = {"latents": [1, config["tokens"], width], "proj_in.weight": [width, features], "proj_in.bias": [width],
              "proj_out.weight": [text, width], "proj_out.bias": [text], "norm_out.weight": [text], "norm_out.bias": [text]}
    for i in range(config["layers"]):
        attention, forward = f"layers.{i}.0", f"layers.{i}.1"
        for norm in (f"{attention}.norm1", f"{attention}.norm2", f"{forward}.0"):
            shapes.update({f"{norm}.weight": [width], f"{norm}.bias": [width]})
        shapes.update({f"{attention}.to_q.weight": [inner, width], f"{attention}.to_kv.weight": [2 * inner, width],
                       f"{attention}.to_out.weight": [width, inner], f"{forward}.1.weight": [hidden, width],
                       f"{forward}.3.weight": [width, hidden]})
    return shapes


class Projection(torch.nn.Module):
    """diffusers' projection of an IP-Adapter, and the tensors of the file that it is read from."""

    def __init__(self, config):
        super().__init__()
        self.shapes = {f"image_proj.{name}": shape for name, shape in projection_shapes(config).items()}
        self.state = {name: synthetic_weight(name, shape) for name, shape in self.shapes.items()}
        proj = {name.removeprefix("image_proj."): tensor for name, tensor in self.state.items()}
        # The loader asks nothing of the UNet that it is a method of.
        loader = diffusers.loaders.UNet2DConditionLoadersMixin()
        convert = loader._convert_ip_adapter_image_proj_to_diffusers
        self.module = convert(proj, low_cpu_mem_usage=False)

    def named_parameters(self, *_arguments, **_keywords):
        return ((name, tensor) for name, tensor in self.state.items())

    def parameters(self, *_arguments, **_keywords):
        return self.state.values()


def evaluate_projection(case, dtype=torch.float32):
    config = case["config"]
    patches = [config["patches"]] if config["kind"] == "plus" else []
    projection = Projection(config)
    image = noise((case["rows"], *patches, config["image_features"]), 1).to(dtype)
    return projection, {"image": image}, {"tokens": projection.module.to(dtype).eval()(image)}


EVALUATE = {
    "IPAdapter": evaluate_projection,
    "UNet2DConditionModel": evaluate_unet,
    "ControlNetModel": evaluate_control_net,
    "ControlNetUnionModel": evaluate_union,
    "UNetSpatioTemporalConditionModel": evaluate_video_unet,
    "AutoencoderKLTemporalDecoder": evaluate_video_autoencoder,
    "CLIPVisionModelWithProjection": evaluate_image_encoder,
    "AutoencoderKL": evaluate_autoencoder,
    "AutoencoderTiny": evaluate_autoencoder,
    "CLIPTextModel": evaluate_text_encoder,
    "CLIPTextModelWithProjection": evaluate_text_encoder,
}


@torch.no_grad()
def make_network(case, out):
    network, inputs, outputs = EVALUATE[case["class"]](case)
    tensors = {f"in.{name}": tensor.contiguous() for name, tensor in inputs.items()}
    tensors.update({f"out.{name}": tensor.contiguous() for name, tensor in outputs.items()})
    save_file(tensors, f"{out}/{case['name']}.safetensors")
    shapes = {disk_name(network, name): list(p.shape) for name, p in network.named_parameters()}
    with open(f"{out}/{case['name']}.parameters.json", "w") as file:
        json.dump(shapes, file, indent=0)
    print(case["name"], sum(p.numel() for p in network.parameters()), flush=True)


# Pictures


def scale(module, gains):
    """Multiplies parameters by what checkpoints.json says."""
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, gain in gains.items():
            parameters[name].mul_(gain)
    return module


def synthetic_network(class_name, config):
    if class_name == "CLIPVisionModelWithProjection":
        return CLIPVisionModelWithProjection(CLIPVisionConfig(**config))
    if not class_name.startswith("CLIPText"):
        return getattr(diffusers, class_name).from_config(config)
    if class_name == "CLIPTextModelWithProjection":
        return CLIPTextModelWithProjection(CLIPTextConfig(**config))
    module = CLIPTextModel(CLIPTextConfig(**config))
    object.__setattr__(module, "text_model", module)  # transformers 5 has one module where diffusers sees two
    return module


def synthetic_control_net(net, dtype, list_file):
    """The ControlNet of an entry of controls.json; its parameters are listed in that file."""
    module = fill_with_synthetic_weights(getattr(diffusers, net["config"]["_class_name"]).from_config(net["config"]))
    zeros = ("controlnet_down_blocks.", "controlnet_mid_block.")
    scale(module, {name: net["zero_gain"] for name, _ in module.named_parameters() if name.startswith(zeros)})
    os.makedirs(os.path.dirname(list_file), exist_ok=True)
    with open(list_file, "w") as file:
        json.dump({name: list(p.shape) for name, p in module.named_parameters()}, file, indent=0)
    return module.to(dtype)


class SyntheticIpAdapter:
    """An entry of ip_adapters.json for a UNet, with its image encoder; their parameters are listed in that file."""

    def __init__(self, entry, unet, list_file):
        self.encoder = fill_with_synthetic_weights(synthetic_network("CLIPVisionModelWithProjection", entry["encoder"]))
        shapes = {f"image_proj.{name}": shape for name, shape in projection_shapes(entry["config"]).items()}
        index = 1
        for name, attention in unet.named_modules():
            if name.endswith("attn2"):
                for weight in ("to_k_ip", "to_v_ip"):
                    shapes[f"ip_adapter.{index}.{weight}.weight"] = [attention.inner_dim, unet.config.cross_attention_dim]
                index += 2
        os.makedirs(os.path.dirname(list_file), exist_ok=True)
        encoder_shapes = {disk_name(self.encoder, name): list(p.shape) for name, p in self.encoder.named_parameters()}
        with open(list_file, "w") as file:
            json.dump({"ip_adapter": shapes, "image_encoder": encoder_shapes}, file, indent=0)
        self.state = {"image_proj": {}, "ip_adapter": {}}
        for name, shape in shapes.items():
            part, rest = name.split(".", 1)
            self.state[part][rest] = synthetic_weight(name, shape)


# Pipelines that draw with ControlNets, by whether they are SDXL's and whether they start from an image; and with unions.
CONTROLLED = {
    (False, False): StableDiffusionControlNetPipeline,
    (False, True): StableDiffusionControlNetImg2ImgPipeline,
    (True, False): StableDiffusionXLControlNetPipeline,
    (True, True): StableDiffusionXLControlNetImg2ImgPipeline,
}
UNITED = {False: StableDiffusionXLControlNetUnionPipeline, True: StableDiffusionXLControlNetUnionImg2ImgPipeline}


def synthetic_pipeline(checkpoint, like, tokenizer, dtype, lists=None):
    """The pipeline of an entry of checkpoints.json and, in the file `lists`, the parameters of its own networks.

    `like` is the entry that has the networks which this one lacks."""
    index, networks = checkpoint["model_index"], {}
    for component, config in {**like.get("networks", {}), **checkpoint["networks"]}.items():
        module = fill_with_synthetic_weights(synthetic_network(index[component][1], config))
        networks[component] = scale(module, checkpoint.get("gains", {}).get(component, {})).to(dtype)
    if lists is not None:
        os.makedirs(os.path.dirname(lists), exist_ok=True)
        shapes = {
            component: {disk_name(module, name): list(p.shape) for name, p in module.named_parameters()}
            for component, module in networks.items() if component in checkpoint["networks"]
        }
        with open(lists, "w") as file:
            json.dump(shapes, file, indent=0)
    scheduler = getattr(diffusers, checkpoint["scheduler"]["_class_name"]).from_config(checkpoint["scheduler"])
    tokenizers = {
        name: CLIPTokenizer.from_pretrained(tokenizer) for name in index if name.startswith("tokenizer")}
    if index["_class_name"] == "StableDiffusionXLPipeline":
        return StableDiffusionXLPipeline(
            **networks, **tokenizers, scheduler=scheduler, add_watermarker=False,
            force_zeros_for_empty_prompt=index["force_zeros_for_empty_prompt"])
    return StableDiffusionPipeline(
        **networks, **tokenizers, scheduler=scheduler, safety_checker=None, feature_extractor=None,
        requires_safety_checker=False)


def demo_pipelines(model, dtype):
    options = {"torch_dtype": dtype, "add_watermarker": False}
    base = StableDiffusionXLPipeline.from_pretrained(f"{model}/base", **options)
    return Pipelines(base, StableDiffusionXLImg2ImgPipeline.from_pretrained(f"{model}/refiner", **options))


class Checkpoints:
    """The pipelines of each case's checkpoint, all of one dtype, made when first asked for."""

    def __init__(self, model, cases, dtype):
        with open(f"{cases}/checkpoints.json") as file:
            self.synthetic = json.load(file)
        with open(f"{cases}/controls.json") as file:
            self.controls = json.load(file)
        with open(f"{cases}/ip_adapters.json") as file:
            self.ip_adapters = json.load(file)
        self.model, self.dtype, self.made = model, dtype, {}

    def of(self, case, lists=None):
        """With `lists`, a folder, the parameters of a checkpoint that is made are listed there."""
        name = case.get("checkpoint")
        if name not in self.made:
            if name is None:
                self.made[name] = demo_pipelines(self.model, self.dtype)
            else:
                own = self.synthetic[name]
                self.made[name] = Pipelines(synthetic_pipeline(
                    own, self.synthetic.get(own.get("like"), {}), f"{self.model}/base/tokenizer", self.dtype,
                    lists and f"{lists}/{name}.parameters.json"))
        return self.made[name]

    def nets(self, case, lists):
        """The ControlNets of the case's controls; their parameters are listed in the folder `lists`."""
        names = [control["name"] for control in case["controls"]]
        return [synthetic_control_net(self.controls[name], self.dtype, f"{lists}/{name}.parameters.json") for name in names]


    def set_ip_adapters(self, case, lists, folder):
        """The case's IP-Adapters; without any, none of an earlier case is left."""
        adapters = [
            (SyntheticIpAdapter(self.ip_adapters[one["name"]], self.of(case).base.unet, f"{lists}/{one['name']}.parameters.json"),
             one.get("scales", one.get("scale", 1.0)), prompt_images(one, folder))
            for one in case.get("ip_adapters", [])]
        self.of(case).set_ip_adapters(adapters, self.dtype)
        given = {index: noise(one["embeds"]["shape"], one["embeds"]["seed"]).to(self.dtype)
                 for index, one in enumerate(case.get("ip_adapters", [])) if "embeds" in one}
        if given:
            self.of(case).set_image_embeds(given, case["guidance_scale"] > 1)


class WeightedText:
    """Embeddings of a case's pieces, by the rule of its syntax."""

    def __init__(self, pipeline, case):
        self.case, self.is_xl = case, hasattr(pipeline, "text_encoder_2")
        self.encoders = [(pipeline.tokenizer, pipeline.text_encoder)]
        if self.is_xl:
            self.encoders.append((pipeline.tokenizer_2, pipeline.text_encoder_2))

    def encode(self, encoder, ids, mask=None):
        """The state that a UNet reads of those ids, and the pooled one. No token attends to one of mask 0."""
        mask = None if mask is None else torch.tensor([mask])
        result = encoder(torch.tensor([ids]), attention_mask=mask, output_hidden_states=True)
        from_last = self.case.get("clip_skip_a1111", 1)
        if self.is_xl:
            return result.hidden_states[-max(from_last, 2)], result[0]
        return encoder.text_model.final_layer_norm(result.hidden_states[-from_last]), None

    def weigh(self, encoder, tokenizer, z, weights):
        weights = torch.tensor(weights, dtype=z.dtype)[None, :, None]
        if self.case["prompt_syntax"] != "a1111":
            empty, _ = self.encode(encoder, tokenizer("", padding="max_length", max_length=TOKENS).input_ids)
            return torch.where(weights == 1, z, empty + (z - empty) * weights)
        weighted = z * weights
        return weighted if self.is_xl else weighted * (z.mean() / weighted.mean())

    def blend(self, encoder, ids, z, less):
        """As Compel: the mean of z and the states without each piece that weighs less than 1, (begin, end, weight)."""
        total, states = 1.0, z
        for begin, end, weight in less:
            mask = [int(not begin <= place < end) for place in range(TOKENS)]
            count = math.tan((1 - max(weight, 1e-5)) * math.pi / 2)
            total, states = total + count, states + count * self.encode(encoder, ids, mask)[0]
        return states / total

    def encode_chunk(self, encoder, tokenizer, pieces):
        ids, weights, less = [tokenizer.bos_token_id], [1.0], []
        for text, weight in pieces:
            tokens = tokenizer(text, add_special_tokens=False).input_ids
            if weight < 1 and self.case["prompt_syntax"] == "compel":
                less.append((len(ids), len(ids) + len(tokens), weight))
            ids, weights = ids + tokens, weights + [weight] * len(tokens)
        ids, weights = ids[:TOKENS - 1] + [tokenizer.eos_token_id], weights[:TOKENS - 1] + [1.0]
        ids += [tokenizer.pad_token_id] * (TOKENS - len(ids))
        z, pooled = self.encode(encoder, ids)
        if less:
            z = self.blend(encoder, ids, z, less)
        return self.weigh(encoder, tokenizer, z, weights + [1.0] * (TOKENS - len(weights))), pooled

    def encode_pieces(self, encoder, tokenizer, pieces):
        """All chunks, which null divides, filled up with empty ones; and the first one's pooled state."""
        chunks = [[]]
        for piece in pieces:
            if piece is None:
                chunks.append([])
            else:
                chunks[-1].append(piece)
        most = max(1 + all_pieces.count(None) for all_pieces in self.case["pieces"].values())
        chunks += [[]] * (most - len(chunks))
        results = [self.encode_chunk(encoder, tokenizer, chunk) for chunk in chunks]
        return torch.cat([state for state, _ in results], 1), results[0][1]

    @torch.no_grad()
    def parameters(self):
        """The pipeline's, in place of the prompts."""
        found = {}
        for name in ("prompt", "negative_prompt"):
            results = [self.encode_pieces(encoder, tokenizer, self.case["pieces"][name])
                       for tokenizer, encoder in self.encoders]
            found[f"{name}_embeds"] = torch.cat([state for state, _ in results], -1)
            if self.is_xl:
                found[name.replace("prompt", "pooled_prompt_embeds")] = results[-1][1]
        return found


class Ipndm(diffusers.EulerDiscreteScheduler):
    """k-diffusion's IPNDM (sample_ipndm of zju-pi/diff-sampler) over Euler's noise levels, for a network that predicts noise."""

    WEIGHTS = ([1], [3 / 2, -1 / 2], [23 / 12, -16 / 12, 5 / 12], [55 / 24, -59 / 24, 37 / 24, -9 / 24])

    def set_timesteps(self, *arguments, **keywords):
        super().set_timesteps(*arguments, **keywords)
        self.past = []

    def step(self, output, timestep, sample, return_dict=True):
        if self.step_index is None:
            self._init_step_index(timestep)
        now, then = map(float, self.sigmas[self.step_index:self.step_index + 2])
        self.past.insert(0, output)
        weights = self.WEIGHTS[0 if then == 0 else min(len(self.past), 4) - 1]
        self._step_index += 1
        return (sample + (then - now) * sum(weight * past for weight, past in zip(weights, self.past)),)


class Dpmpp2sAncestral(diffusers.EulerDiscreteScheduler):
    """k-diffusion's sample_dpmpp_2s_ancestral, likewise; each step but the last has a second evaluation, half way in log sigma."""

    def set_timesteps(self, *arguments, **keywords):
        super().set_timesteps(*arguments, **keywords)
        levels = self.sigmas.double().numpy()
        logs = numpy.log(numpy.sqrt((1 - self.alphas_cumprod) / self.alphas_cumprod).double().numpy())
        sigmas, timesteps, self.ancestral = [], [], []
        for now, then, timestep in zip(levels, levels[1:], self.timesteps.tolist()):
            up = min(then, (then**2 * (now**2 - then**2) / now**2)**0.5)
            down = (then**2 - up**2)**0.5
            self.ancestral.append((now, down, up))
            sigmas.append(now)
            timesteps.append(timestep)
            if down > 0:
                half = (now * down)**0.5
                self.ancestral.append(None)
                sigmas.append(half)
                timesteps.append(numpy.interp(numpy.log(half), logs, numpy.arange(len(logs))))
        self.sigmas = torch.tensor([*sigmas, 0.0], dtype=torch.float32)
        self.timesteps = torch.tensor(timesteps, dtype=torch.float32)

    def step(self, output, timestep, sample, generator=None, return_dict=True):
        if self.step_index is None:
            self._init_step_index(timestep)
        level, sigma = self.ancestral[self.step_index], float(self.sigmas[self.step_index])
        denoised = sample - sigma * output
        self._step_index += 1
        if level is None:  # the second evaluation
            now, down, up = self.first
            moved = down / now * self.before + (1 - down / now) * denoised
            return (moved + up * randn_tensor(sample.shape, generator=generator, dtype=sample.dtype),)
        now, down, _ = self.first = level
        self.before = sample
        if down == 0:
            return (denoised,)
        half = (now * down)**0.5
        return (half / now * sample + (1 - half / now) * denoised,)


# Schedulers that diffusers has not, by latentd's names.
SCHEDULERS = {"ipndm": Ipndm, "dpmpp_2s_a": Dpmpp2sAncestral}


class GuidanceWatch:
    """Says which evaluations of a picture are guided: once guidance changes little in two of them, none from the second behind."""

    LITTLE = 0.2

    def __init__(self, scale):
        self.scale = scale
        self.changes = []

    def guides(self, sigma, negative, text):
        """Answers for the next evaluation, at that noise, with its outputs for the negative prompt and the prompt: noise."""
        guided = not any(max(pair) <= self.LITTLE for pair in zip(self.changes[:-2], self.changes[1:-1]))
        self.changes.append((self.scale - 1) * sigma * float((negative - text).std()))
        return guided


class Differential:
    """Differential diffusion with an image-to-image pipeline: what that begins with, and what puts the image back before evaluations."""

    def __init__(self, pipeline, case, mask):
        self.pipeline, self.steps, self.start = pipeline, case["num_inference_steps"], case.get("denoising_start")
        greys = numpy.asarray(mask.resize((case["width"], case["height"]), Image.Resampling.LANCZOS).convert("L"))
        stays = torch.from_numpy((255 - greys).astype("float32") / numpy.float32(255))
        shape = [case[side] // pipeline.vae_scale_factor for side in ("height", "width")]
        self.stays = torch.nn.functional.interpolate(stays[None, None], shape, mode="bilinear", align_corners=False)

    def sample(self, image, rng):
        return self.pipeline.vae.encode(image).latent_dist.sample(rng) * self.pipeline.vae.config.scaling_factor

    def noised(self, timestep):
        return self.pipeline.scheduler.add_noise(self.image, self.noise, timestep.reshape(1))

    def mix(self, latents, evaluation, timestep):
        passed = torch.tensor(evaluation, dtype=torch.float32) / self.steps + (self.start or 0)
        return torch.where(self.stays > passed, self.noised(timestep), latents)

    def begin(self, image, timestep, _batch, _count, dtype, _device, rng, *_rest):
        """In the place of prepare_latents. The community pipelines draw twice, and begin with the second unless there is a start."""
        image = image.to(dtype)
        first = self.sample(image, rng)
        if self.start is None:
            torch.randn(first.shape, generator=rng)
        self.image = self.sample(image, rng)
        self.noise = torch.randn(first.shape, generator=rng, dtype=dtype)
        return self.noised(timestep) if self.start is None else self.mix(first, 0, timestep)

    def after(self, i, latents):
        """The latents after the pipeline's evaluation i."""
        if i + 1 == self.pipeline.num_timesteps:
            return latents
        timesteps = self.pipeline.scheduler.timesteps
        return self.mix(latents, i + 1, timesteps[len(timesteps) - self.pipeline.num_timesteps + i + 1])


def guide_only(pipeline, interval, steps):
    """Steps outside the interval see the text's output in both rows: their guidance changes nothing. A handle."""
    begin, end = (int(fraction * steps) for fraction in interval)
    evaluations = iter(range(steps))

    def unguided(_unet, _inputs, outputs):
        if begin <= next(evaluations) < end:
            return outputs
        _, text = outputs[0].chunk(2)
        return (torch.cat([text, text]), *outputs[1:])

    return pipeline.unet.register_forward_hook(unguided)


class Pipelines:
    """Base, image-to-image with the base, and the refiner, if there is one."""

    def __init__(self, base, refiner=None):
        self.base, self.refiner, self.loras, self.words, self.prompt_images = base, refiner, [], [], []
        self.image_embeds = None  # embeddings of prompt_images, in their place
        self.base_image = AutoPipelineForImage2Image.from_pipe(base)
        self.inpainting = AutoPipelineForInpainting.from_pipe(base)
        known = (base, refiner, self.base_image, self.inpainting)
        pipelines = [pipeline for pipeline in known if pipeline is not None]
        self.schedulers = {id(pipeline): pipeline.scheduler for pipeline in pipelines}
        for pipeline in pipelines:
            pipeline.set_progress_bar_config(disable=True)

    def controlled(self, nets, from_image):
        """A pipeline of the base with these ControlNets."""
        is_xl = isinstance(self.base, StableDiffusionXLPipeline)
        options = {"requires_safety_checker": False}
        if is_xl:
            options = {"add_watermarker": False,
                       "force_zeros_for_empty_prompt": self.base.config.force_zeros_for_empty_prompt}
        is_union = isinstance(nets[0], diffusers.ControlNetUnionModel)
        kind = UNITED[from_image] if is_union else CONTROLLED[is_xl, from_image]
        pipeline = kind(
            **self.base.components, controlnet=nets[0] if len(nets) == 1 else nets, **options)
        self.schedulers[id(pipeline)] = self.schedulers[id(self.base)]
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def make_controlled(self, case, out, nets):
        """As make, of a case with controls."""
        controls, from_image = case["controls"], case["task"] == "image-to-image"
        pipeline = self.controlled(nets, from_image)
        images = [Image.open(f"{out}/{control['image']}-0.png").convert("RGB") for control in controls]
        fields = {"controlnet_conditioning_scale": "scale", "control_guidance_start": "start", "control_guidance_end": "end"}
        defaults = {"scale": 1.0, "start": 0.0, "end": 1.0}
        more = {name: [control.get(field, defaults[field]) for control in controls] for name, field in fields.items()}
        if len(controls) == 1:
            images, more = images[0], {name: values[0] for name, values in more.items()}
        more.update(image=images, height=case["height"], width=case["width"], guess_mode=case.get("guess_mode", False))
        if "mode" in controls[0]:  # a union's
            more.update(control_mode=[control["mode"] for control in controls], control_image=more.pop("image"))
        if from_image:
            more.update(image=Image.open(f"{out}/{case['image']}-0.png"), control_image=images, strength=case["strength"])
        if "denoising_end" in case:
            more["denoising_end"] = case["denoising_end"]
        return *self.run(pipeline, case, **more), None

    def set_scheduler(self, pipeline, wanted):
        own = self.schedulers[id(pipeline)]
        name = wanted.get("class", type(own).__name__)
        kind = SCHEDULERS.get(name) or getattr(diffusers, name)
        # Not joined to its config: that drops fields which the checkpoint's file leaves out.
        pipeline.scheduler = kind.from_config(own.config, **wanted.get("config", {}))

    def parameters(self, pipeline, case):
        parameters = {
            name: tuple(value) if name.endswith(("_size", "_left")) else value
            for name, value in case.items() if name in PARAMETERS
        }
        if pipeline in (self.base, self.inpainting):
            parameters.update(height=case["height"], width=case["width"])
        if "pieces" in case:
            parameters = {name: value for name, value in parameters.items() if name not in TEXT_PARAMETERS}
            parameters.update(WeightedText(pipeline, case).parameters())
        if pipeline is self.refiner:
            parameters = {name: value for name, value in parameters.items() if name not in NOT_OF_REFINER}
            parameters.setdefault("original_size", (case["height"], case["width"]))
            parameters.setdefault("target_size", (case["height"], case["width"]))
        return parameters

    def stop_guidance(self, pipeline, scale, pictures):
        """Guidance ends by guidance_stop's rule (docs/models.md), for each picture by its own outputs. A handle.

        REQUIRES: a prediction of noise, at whole timesteps.
        """
        watches = [GuidanceWatch(scale) for _ in range(pictures)]

        def unguided(_unet, inputs, outputs):
            signal = float(pipeline.scheduler.alphas_cumprod[int(inputs[1])])
            sigma = math.sqrt((1 - signal) / signal)
            negative, text = outputs[0].chunk(2)
            kept = [one if watch.guides(sigma, one, other) else other for watch, one, other in zip(watches, negative, text)]
            return (torch.cat([torch.stack(kept), text]), *outputs[1:])

        return pipeline.unet.register_forward_hook(unguided)

    def cache_features(self, pipeline, interval):
        """Evaluations read the features of earlier ones by feature_cache_interval's rule (docs/models.md). A handle.

        The UNet computes the smaller resolutions in each, but there goes on with what they gave last.
        """
        blocks = pipeline.unet.up_blocks
        kept, since, number = None, 0, 0

        def read(_block, _inputs, output):
            nonlocal kept, since, number
            count = len(pipeline.scheduler.timesteps)
            in_middle = (3 * count + 9) // 10 <= number < count - 2
            number += 1
            if in_middle and since + 1 < interval:
                since += 1
                return kept
            kept, since = output, 0
            return output

        return blocks[max(len(blocks) - 3, 0)].register_forward_hook(read)

    def run(self, pipeline, case, differential=None, **more):
        """The latents after the last step and the pictures of one stage."""
        self.set_scheduler(pipeline, case.get("scheduler", {}))
        kept = {}

        def keep(_pipeline, step, _timestep, seen):
            latents = seen["latents"] if differential is None else differential.after(step, seen["latents"])
            kept["latents"] = latents.clone()
            return {} if differential is None else {"latents": latents}

        generators = [generator(seed) for seed in case["seeds"]]
        hook = None
        if "guidance_interval" in case:  # text-to-image only, an evaluation a step
            hook = guide_only(pipeline, case["guidance_interval"], case["num_inference_steps"])
        elif "guidance_stop" in case:
            hook = self.stop_guidance(pipeline, case["guidance_scale"], len(generators))
        elif "feature_cache_interval" in case:  # text-to-image only
            hook = self.cache_features(pipeline, case["feature_cache_interval"])
        if self.prompt_images and pipeline is not self.refiner:
            name = "ip_adapter_image" if self.image_embeds is None else "ip_adapter_image_embeds"
            more[name] = self.prompt_images if self.image_embeds is None else self.image_embeds
        images = pipeline(
            **self.parameters(pipeline, case), **more, num_images_per_prompt=len(generators),
            generator=generators if len(generators) > 1 else generators[0], callback_on_step_end=keep).images
        if hook is not None:
            hook.remove()
        return kept["latents"], images

    def make(self, case, out):
        """Latents, pictures and, for an ensemble, the latents handed over; `out` has earlier cases' pictures."""
        task = case["task"]
        for pipeline in (self.base, self.refiner):  # base_image has the base's VAE
            if pipeline is not None:
                pipeline.vae.use_tiling = case.get("vae_tiling", False)
        if task == "text-to-image":
            more = {"denoising_end": case["denoising_end"]} if "denoising_end" in case else {}
            if "latents_seed" in case:
                shape = (1, 4, case["height"] // 8, case["width"] // 8)
                more["latents"] = noise(shape, case["latents_seed"]).to(self.base.unet.dtype)
            return *self.run(self.base, case, **more), None
        if task == "ensemble":
            cut = case["denoising_end"]
            handed_over, _ = self.run(self.base, case, denoising_end=cut, output_type="latent")
            return *self.run(self.refiner, case, image=handed_over, denoising_start=cut), handed_over
        pipeline = {"image-to-image": self.base_image, "refiner-image-to-image": self.refiner,
                    "inpainting": self.inpainting}[task]
        more = {"image": Image.open(f"{out}/{case['image']}-0.png")}
        for name in ("strength", "denoising_start"):
            if name in case:
                more[name] = case[name]
        if case.get("differential", False):
            return *self.make_differential(case, mask_image(out, case["mask"]), more), None
        if "mask" in case:
            more["mask_image"] = pipeline.mask_processor.blur(mask_image(out, case["mask"]), case.get("mask_blur", 0))
        latents, images = self.run(pipeline, case, **more)
        if case.get("preserve_unmasked", False):
            images = [pipeline.image_processor.apply_overlay(more["mask_image"], more["image"], image) for image in images]
        return latents, images, None

    def make_differential(self, case, mask, more):
        pipeline = self.base_image
        blurred = self.inpainting.mask_processor.blur(mask, case.get("mask_blur", 0))
        differential = Differential(pipeline, case, blurred)
        pipeline.prepare_latents = differential.begin
        try:
            return self.run(pipeline, case, differential, **more)
        finally:
            del pipeline.prepare_latents

    def set_loras(self, case, folder):
        """The case's LoRAs, as the server merges them; without any, none of an earlier case is left."""
        if self.loras:
            self.base.unload_lora_weights()
        self.loras = case.get("loras", [])
        for lora in self.loras:
            self.base.load_lora_weights(f"{folder}/{lora['name']}.safetensors", adapter_name=lora["name"])
        if self.loras:
            weights = [{part: lora.get(kind, 1) for part, kind in LORA_WEIGHTS.items()} for lora in self.loras]
            self.base.set_adapters([lora["name"] for lora in self.loras], weights)

    def set_ip_adapters(self, adapters, dtype):
        """Adapters with their scales and images; diffusers has one image encoder for all."""
        if self.prompt_images:
            self.base.unload_ip_adapter()
        self.image_embeds = None
        self.prompt_images = [images for _, _, images in adapters]
        if adapters:
            self.base.register_modules(image_encoder=adapters[0][0].encoder.to(dtype))
            self.base.load_ip_adapter([adapter.state for adapter, _, _ in adapters], subfolder=[""] * len(adapters),
                                      weight_name=[""] * len(adapters), image_encoder_folder=None, low_cpu_mem_usage=False)
            self.base.set_ip_adapter_scale([scale_of for _, scale_of, _ in adapters])
        for pipeline in (self.base_image, self.inpainting):
            pipeline.register_modules(image_encoder=self.base.image_encoder, feature_extractor=self.base.feature_extractor)

    @torch.no_grad()
    def set_image_embeds(self, given, guided):
        """Embeddings of the images in their place, those of adapters in `given` as they are there: by index, with the negative ones or
        without."""
        self.image_embeds = self.base.prepare_ip_adapter_image_embeds(self.prompt_images, None, "cpu", 1, guided)
        for index, embeds in given.items():
            negative = self.image_embeds[index][:1] if guided and len(embeds) == 1 else embeds[:0]
            self.image_embeds[index] = torch.cat([negative, embeds])

    def set_words(self, case, folder):
        """The case's textual inversions as words "<NAME>"; without any, none of an earlier case is left."""
        encoders = ((self.base.tokenizer, self.base.text_encoder, "clip_l"),
                    (self.base.tokenizer_2, self.base.text_encoder_2, "clip_g")) if case.get("embeddings") or self.words else ()
        for tokenizer, encoder, _ in encoders:
            for word in self.words:
                self.base.unload_textual_inversion(word, encoder, tokenizer)
        self.words = [f"<{name}>" for name in case.get("embeddings", [])]
        for name, word in zip(case.get("embeddings", []), self.words):
            vectors = load_file(f"{folder}/{name}.safetensors")
            for tokenizer, encoder, key in encoders:
                self.base.load_textual_inversion(vectors[key].to(encoder.dtype), word, tokenizer, encoder)

    def text(self, case):
        if "pieces" in case or not case.get("text", True):
            return {}  # latentd weighs states in the graph that reads them
        pipeline = self.refiner if case["task"] == "refiner-image-to-image" else self.base
        wanted = TEXT_PARAMETERS - (NOT_OF_REFINER if pipeline is self.refiner else set())
        parameters = {name: case[name] for name in wanted if name in case}
        names = ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds", "negative_pooled_prompt_embeds")
        found = pipeline.encode_prompt(
            **parameters, device="cpu", num_images_per_prompt=1,
            do_classifier_free_guidance=case["guidance_scale"] > 1)
        return {name: tensor for name, tensor in zip(names, found) if tensor is not None}


def names_of(value):
    """One name or a list of them, as a list."""
    return value if isinstance(value, list) else [value]


def prompt_images(adapter, folder):
    """The images of an IP-Adapter of a case; black ones where it has embeddings of as many."""
    if "embeds" in adapter:
        return [Image.new("RGB", (64, 64))] * adapter["embeds"]["shape"][1]
    return [Image.open(f"{folder}/{name}-0.png").convert("RGB") for name in names_of(adapter["image"])]


def mask_image(folder, name):
    """A mask of `folder`, as diffusers.utils.load_image reads it."""
    return Image.open(f"{folder}/masks/{name}.png").convert("RGB")


def pixel_distance(a, b):
    """The largest difference of two pictures, in steps of 1/255."""
    return int(numpy.abs(numpy.asarray(a).astype(int) - numpy.asarray(b).astype(int)).max())


def make_pictures(model, folder, cases, out, selected):
    """Makes the cases whose names begin with `selected`; other cases' results stay."""
    exact, wide = Checkpoints(model, folder, torch.float32), Checkpoints(model, folder, torch.float64)
    distances = {}
    if selected and os.path.exists(f"{out}/float64_distance.json"):
        with open(f"{out}/float64_distance.json") as file:
            distances = json.load(file)
    for case in cases:
        name = case["name"]
        if not name.startswith(selected):
            continue
        pipelines = exact.of(case, lists=f"{os.path.dirname(out)}/checkpoints")
        for of_dtype in (pipelines, wide.of(case)):
            of_dtype.set_loras(case, f"{folder}/loras")
            of_dtype.set_words(case, f"{folder}/embeddings")
        for checkpoints in (exact, wide):
            checkpoints.set_ip_adapters(case, f"{os.path.dirname(out)}/ip_adapters", out)
        if "controls" in case:
            lists = f"{os.path.dirname(out)}/controls"
            latents, images, handed_over = pipelines.make_controlled(case, out, exact.nets(case, lists))
            wide_latents, wide_images, _ = wide.of(case).make_controlled(case, out, wide.nets(case, lists))
        else:
            latents, images, handed_over = pipelines.make(case, out)
            wide_latents, wide_images, _ = wide.of(case).make(case, out)
        tensors = {"latents": latents, **pipelines.text(case)}
        if handed_over is not None:
            tensors["latents_handed_over"] = handed_over
        save_file({key: tensor.float().contiguous() for key, tensor in tensors.items()}, f"{out}/{name}.safetensors")
        for i, image in enumerate(images):
            image.save(f"{out}/{name}-{i}.png")
        distances[name] = {
            "pixel": max(map(pixel_distance, images, wide_images)),
            "latent": float((latents - wide_latents.float()).abs().max()),
        }
        print(name, distances[name], flush=True)
    with open(f"{out}/float64_distance.json", "w") as file:
        json.dump(distances, file, indent=1)


# Losses

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
PICTURES_OF_LOSSES = ("star", "two_shapes_wide", "ensemble", "image_to_image")


def relative_distance(exact, lesser):
    """Distance of two tensors: the root of the mean square of their difference, by that of the first."""
    return float((exact - lesser.float()).square().mean().sqrt() / exact.square().mean().sqrt())


def gaussian_means(values):
    """Means of a (height, width, 3) array over every whole 11 x 11 window, weighted by a Gaussian of sigma 1.5."""
    weights = numpy.exp(-0.5 * (numpy.arange(-5, 6) / 1.5) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        windows = numpy.lib.stride_tricks.sliding_window_view(values, len(weights), axis)
        values = windows @ weights
    return values


def structural_similarity(a, b):
    """SSIM (Wang et al. 2004) of two pictures as arrays of 0 to 255, the mean of the three channels'."""
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mean_a, mean_b = gaussian_means(a), gaussian_means(b)
    variance_a, variance_b = gaussian_means(a * a) - mean_a**2, gaussian_means(b * b) - mean_b**2
    covariance = gaussian_means(a * b) - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    return float((luminance * (2 * covariance + c2) / (variance_a + variance_b + c2)).mean())


@torch.no_grad()
def network_loss(case, dtype):
    outputs = [EVALUATE[case["class"]](case, of)[2] for of in (torch.float32, dtype)]
    return {"outputs": max(relative_distance(outputs[0][name], outputs[1][name]) for name in outputs[0])}


def picture_loss(exact, lesser, case, out):
    (latents, images, _), (low_latents, low_images, _) = exact.make(case, out), lesser.make(case, out)
    pairs = [[numpy.asarray(image).astype(float) for image in pair] for pair in zip(images, low_images)]
    return {
        "latents": relative_distance(latents, low_latents),
        "pixels": max(float(numpy.abs(a - b).mean()) for a, b in pairs),
        "ssim": min(structural_similarity(a, b) for a, b in pairs),
    }


def make_losses(model, cases, out):
    """How far diffusers in a lesser precision is from diffusers in float32."""
    with open(f"{out}/losses.json") as file:
        losses = json.load(file)  # make_videos.py has others in it
    for precision, dtype in PRECISIONS.items():
        found = losses[precision]
        with open(f"{cases}/networks.json") as file:
            for case in json.load(file):
                if not case.get("full"):
                    found[case["name"]] = network_loss(case, dtype)
                    print(precision, case["name"], found[case["name"]], flush=True)
        exact, lesser = Checkpoints(model, cases, torch.float32), Checkpoints(model, cases, dtype)
        with open(f"{cases}/pictures.json") as file:
            for case in json.load(file):
                if case["name"] in PICTURES_OF_LOSSES:
                    found[case["name"]] = picture_loss(
                        exact.of(case), lesser.of(case), case, f"{out}/pictures")
                    print(precision, case["name"], found[case["name"]], flush=True)
    with open(f"{out}/losses.json", "w") as file:
        json.dump(losses, file, indent=1)


# Likeness


def similarity_of(exact_images, lesser, case, pictures):
    """The least of a case's pictures'."""
    _, images, _ = lesser.make(case, pictures)
    pairs = [[numpy.asarray(image).astype(float) for image in pair] for pair in zip(exact_images, images)]
    return min(structural_similarity(a, b) for a, b in pairs)


def make_likeness(model, cases, out):
    """Pictures of more seeds in float32, and how like them and the case's own diffusers' in lesser precisions are."""
    with open(f"{cases}/pictures.json") as file:
        by_name = {case["name"]: case for case in json.load(file)}
    with open(f"{cases}/likeness.json") as file:
        seeds_of = json.load(file)
    os.makedirs(f"{out}/likeness", exist_ok=True)
    exact = demo_pipelines(model, torch.float32)
    lesser = {precision: demo_pipelines(model, dtype) for precision, dtype in PRECISIONS.items()}
    kept = {precision: {name: [] for name in seeds_of} for precision in PRECISIONS}
    for name, seeds in seeds_of.items():
        own = by_name[name]
        for case in (own, *({**own, "seeds": [seed]} for seed in seeds)):
            _, images, _ = exact.make(case, f"{out}/pictures")
            if case is not own:
                images[0].save(f"{out}/likeness/{name}-{case['seeds'][0]}.png", optimize=True)
            for precision, pipelines in lesser.items():
                kept[precision][name].append(similarity_of(images, pipelines, case, f"{out}/pictures"))
            print(name, case["seeds"], {precision: kept[precision][name][-1] for precision in kept}, flush=True)
            with open(f"{out}/likeness/diffusers.json", "w") as file:
                json.dump(kept, file, indent=1)


# Tokens


def load_clip_tokenizer():
    """CLIP's own tokenizer, whose vocabulary follows from the merges."""
    text = MERGES.read_text(encoding="utf-8")
    merged = [line.replace(" ", "") for line in text.split("\n")[1:-1]]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    tokens = [*names, *(name + "</w>" for name in names), *merged, "<|startoftext|>", "<|endoftext|>"]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "merges.txt").write_text(text, encoding="utf-8")
        ids = {token: i for i, token in enumerate(tokens)}
        pathlib.Path(folder, "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
        return CLIPTokenizer.from_pretrained(folder)


def make_tokens(tokenizer, texts, path):
    """For each text: the ids with specials, cut to 77, and how many tokens of the text did not fit."""
    rows = []
    for text in texts:
        count = len(tokenizer(text).input_ids)
        ids = tokenizer(text, truncation=True, max_length=TOKENS).input_ids
        rows.append({"text": text, "ids": ids, "dropped": max(0, count - TOKENS)})
    with open(path, "w") as file:
        json.dump(rows, file, indent=0)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of base/ and refiner/")
    parser.add_argument("--cases", required=True, help="folder of the lists of cases")
    parser.add_argument("--out", required=True, help="folder that gets pictures/, networks/ and tokens/")
    parser.add_argument("--full", action="store_true", help="the networks marked full too")
    parser.add_argument("--case", default="", help="of pictures and networks, those alone whose names begin so")
    parser.add_argument("--only", default="pictures,networks,tokens,losses,likeness")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    draw_float32_noise_always()
    for part in arguments.only.split(","):
        if part in ("losses", "likeness"):
            {"losses": make_losses, "likeness": make_likeness}[part](arguments.model, arguments.cases, arguments.out)
            continue
        with open(f"{arguments.cases}/{part}.json") as file:
            cases = json.load(file)
        out = f"{arguments.out}/{part}"
        os.makedirs(out, exist_ok=True)
        if part == "pictures":
            make_pictures(arguments.model, arguments.cases, cases, out, arguments.case)
        elif part == "networks":
            for case in cases:
                if (arguments.full or not case.get("full")) and case["name"].startswith(arguments.case):
                    make_network(case, out)
        else:
            tokenizer = CLIPTokenizer.from_pretrained(f"{arguments.model}/base/tokenizer")
            make_tokens(tokenizer, cases, f"{out}/demo.json")
            make_tokens(load_clip_tokenizer(), cases, f"{out}/clip.json")


if __name__ == "__main__":
    main()
