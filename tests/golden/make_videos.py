"""Makes the golden videos with diffusers, in float32 on the CPU. README.md describes the files.

Usage: python make_videos.py --cases DIR --out DIR [--case PREFIX] [--losses]

videos.json in --cases says what to draw, on the checkpoint `svd` of checkpoints.json; pictures/ there has the images. --losses
measures diffusers in lesser precision instead, and adds that to losses.json in --out.
"""
import argparse
import json
import os

import diffusers
import torch
from diffusers import StableVideoDiffusionPipeline
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPImageProcessor

import make

PARAMETERS = {
    "height", "width", "num_frames", "num_inference_steps", "sigmas", "min_guidance_scale", "max_guidance_scale", "fps",
    "motion_bucket_id", "noise_aug_strength", "decode_chunk_size",
}  # resize_mode, guidance_interval and latents_seed beside them
CHECKPOINT = "svd"


class GuidedByEither(StableVideoDiffusionPipeline):
    """Guides where any frame has more than 1.

    diffusers makes its rows by max_guidance_scale and then goes by the frames', so that guidance which falls to 1 fails there.
    """

    guided = True

    @property
    def do_classifier_free_guidance(self):
        return self.guided


def pipeline_of(checkpoint, dtype, lists=None):
    """The pipeline of an entry of checkpoints.json and, in the file `lists`, the parameters of its networks."""
    index, networks = checkpoint["model_index"], {}
    for component, config in checkpoint["networks"].items():
        networks[component] = make.fill_with_synthetic_weights(make.synthetic_network(index[component][1], config)).to(dtype)
    if lists is not None:
        shapes = {component: {name: list(p.shape) for name, p in module.named_parameters()}
                  for component, module in networks.items()}
        with open(lists, "w") as file:
            json.dump(shapes, file, indent=0)
    scheduler = getattr(diffusers, checkpoint["scheduler"]["_class_name"]).from_config(checkpoint["scheduler"])
    pipeline = GuidedByEither(
        **networks, scheduler=scheduler, feature_extractor=CLIPImageProcessor(**checkpoint["feature_extractor"]))
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def own_latents(pipeline, case):
    """Noise of a seed of its own in the place of the generator's, in the UNet's dtype."""
    shape = (1, case["num_frames"], pipeline.vae.config.latent_channels, case["height"] // 8, case["width"] // 8)
    return make.noise(shape, case["latents_seed"]).to(pipeline.unet.dtype)


def draw(pipeline, case, folder):
    """The networks' results by name, and the frames."""
    kept, more = {}, {}

    def keep(_pipeline, _step, _timestep, seen):
        kept["latents"] = seen["latents"][0].clone()
        return {}

    def keep_embeds(_module, _inputs, outputs):
        kept["image_embeds"] = outputs.image_embeds.clone()

    def keep_image_latents(_module, _inputs, output):
        kept["image_latents"] = output.chunk(2, 1)[0].flatten(1).clone()

    pipeline.guided = max(case.get("min_guidance_scale", 1.0), case.get("max_guidance_scale", 3.0)) > 1
    hooks = [pipeline.image_encoder.register_forward_hook(keep_embeds),
             pipeline.vae.quant_conv.register_forward_hook(keep_image_latents)]
    if "guidance_interval" in case:
        hooks.append(make.guide_only(pipeline, case["guidance_interval"], case["num_inference_steps"]))
    if "latents_seed" in case:
        more["latents"] = own_latents(pipeline, case)
    image = Image.open(f"{folder}/pictures/{case['image']}-0.png").convert("RGB")
    if case.get("resize_mode") == "crop":
        image = pipeline.video_processor.resize(image, case["height"], case["width"], "crop")
    frames = pipeline(
        image=image,
        **{name: value for name, value in case.items() if name in PARAMETERS}, **more,
        generator=make.generator(case["seed"]), output_type="pt", callback_on_step_end=keep).frames[0]
    for hook in hooks:
        hook.remove()
    kept["frames"] = (frames.permute(0, 2, 3, 1).float() * 255).round().to(torch.uint8)
    return kept


def video_loss(exact, lesser):
    """How far a video is from one in float32: both as `draw` has them."""
    return {
        "latents": make.relative_distance(exact["latents"], lesser["latents"]),
        "pixels": float((exact["frames"].float() - lesser["frames"].float()).abs().mean()),
    }


def make_losses(checkpoint, cases, folder, out):
    """How far diffusers in a lesser precision is from diffusers in float32."""
    with open(f"{out}/losses.json") as file:
        losses = json.load(file)
    exact = pipeline_of(checkpoint, torch.float32)
    for precision, dtype in make.PRECISIONS.items():
        lesser = pipeline_of(checkpoint, dtype)
        for case in cases:
            losses[precision][case["name"]] = video_loss(draw(exact, case, folder), draw(lesser, case, folder))
            print(precision, case["name"], losses[precision][case["name"]], flush=True)
    with open(f"{out}/losses.json", "w") as file:
        json.dump(losses, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", required=True, help="folder of the lists of cases")
    parser.add_argument("--out", required=True, help="folder that gets videos/ and checkpoints/")
    parser.add_argument("--case", default="", help="those alone whose names begin so")
    parser.add_argument("--losses", action="store_true", help="measure bf16 and fp16 instead")
    arguments = parser.parse_args()
    make.draw_float32_noise_always()
    with open(f"{arguments.cases}/checkpoints.json") as file:
        checkpoint = json.load(file)[CHECKPOINT]
    with open(f"{arguments.cases}/videos.json") as file:
        cases = [case for case in json.load(file) if case["name"].startswith(arguments.case)]
    if arguments.losses:
        return make_losses(checkpoint, cases, arguments.cases, arguments.out)
    os.makedirs(f"{arguments.out}/videos", exist_ok=True)
    exact = pipeline_of(checkpoint, torch.float32, f"{arguments.out}/checkpoints/{CHECKPOINT}.parameters.json")
    wide = pipeline_of(checkpoint, torch.float64)
    for case in cases:
        results, wider = draw(exact, case, arguments.cases), draw(wide, case, arguments.cases)
        save_file({name: tensor.contiguous() for name, tensor in results.items()},
                  f"{arguments.out}/videos/{case['name']}.safetensors")
        far = {name: float((tensor.double() - wider[name].double()).abs().max()) for name, tensor in results.items()}
        print(case["name"], "from float64:", far, flush=True)


if __name__ == "__main__":
    main()
