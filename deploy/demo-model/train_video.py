"""Trains the demo's video checkpoint: a small Stable Video Diffusion in the diffusers layout, on the clips of clips.py.

Usage: python train_video.py STAGE [--seconds S] [--total T] [--start FOLDER] [--state FOLDER] [--out FOLDER]
The stages, in order: vae, unet, export, and sheet, which draws clips beside what they should be. Each reads what the one
before left in the state folder; a stage that is called again goes on where it stopped. unet may be called while vae
trains: it compiles, draws its clips, and waits.

Needs torch, diffusers and transformers, and a CUDA GPU for more than a trial.
"""

import argparse
import json
import pathlib
import shutil
import time

import diffusers
import PIL.Image
import torch
import torch.nn.functional as F
import transformers

import clips
from networks import IMAGE_ENCODER, VIDEO_NOISE_SCHEDULER, VIDEO_UNET, VIDEO_VAE
from training import Training

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIPImageProcessor's
PART = 256  # clips that are drawn or encoded together


def autocast():
    return torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda")


def load(model, folder, config):
    """The network as an earlier call left it in `folder`, or a new one."""
    if (folder / "config.json").exists():
        return model.from_pretrained(str(folder)).to(DEVICE)
    return (model.from_config(config) if hasattr(model, "from_config") else model(config)).to(DEVICE)


def save(module, folder):
    """In a folder that appears when it is whole."""
    made = folder.with_suffix(".part")
    module.save_pretrained(made)
    shutil.rmtree(folder, ignore_errors=True)
    made.replace(folder)


def to_bytes(pictures):
    return ((pictures + 1) * 127.5).round().clamp(0, 255).byte()


def from_bytes(pictures):
    return pictures.float() / 127.5 - 1


def drawn(count, seed):
    """(clips, their frames as bytes [count, FRAMES, 3, SIDE, SIDE])"""
    made = clips.Clips(count, seed)
    frames = torch.empty(count, clips.FRAMES, 3, clips.SIDE, clips.SIDE, dtype=torch.uint8, device=DEVICE)
    for first in range(0, count, PART):
        part = frames[first : first + PART]
        part.copy_(to_bytes(made.draw(first, len(part), DEVICE)))
    return made, frames


def save_strips(rows, file):
    """A picture of clips, bytes [FRAMES, 3, SIDE, SIDE], below each other."""
    PIL.Image.fromarray(torch.cat([frames.permute(2, 0, 3, 1).flatten(1, 2).cpu() for frames in rows]).numpy()).save(file)


def reconstruction_loss(decoded, frames):
    """Values, and twice as important their differences from pixel to pixel, which keep edges sharp."""
    edges = sum(F.l1_loss(decoded.diff(dim=d), frames.diff(dim=d)) for d in (2, 3))
    return F.l1_loss(decoded, frames) + 4.0 * F.mse_loss(decoded, frames) + 2.0 * edges


def train_vae(options):
    """The decoder looks across the frames of a clip."""
    torch.manual_seed(0)
    vae = load(diffusers.AutoencoderKLTemporalDecoder, options.start / "vae", VIDEO_VAE)
    _, frames = drawn(options.clips // 16, seed=1)
    batch = max(1, options.batch // 6)

    @torch.compile(disable=DEVICE == "cpu")
    def loss_of(pictures):
        with autocast():
            posterior = vae.encode(pictures).latent_dist
            decoded = vae.decode(posterior.sample(), num_frames=clips.FRAMES).sample
        return reconstruction_loss(decoded.float(), pictures) + 1e-6 * posterior.kl().mean()

    def loss_of_batch():
        rows = torch.randint(len(frames), (batch,), device=DEVICE)
        return loss_of(from_bytes(frames[rows].flatten(0, 1)))

    Training([vae], 1.5e-3, options.total or options.seconds, options.state / "vae.pt").run(loss_of_batch, options.seconds)
    vae.eval()
    register_scale(vae, frames[:64])
    save(vae, options.state / "vae")
    show_reconstructions(vae, frames[:4], options.out / "vae.png")


@torch.no_grad()
def register_scale(vae, frames):
    """The factor that brings the standard deviation of latents to 1."""
    with autocast():
        deviation = vae.encode(from_bytes(frames.flatten(0, 1))).latent_dist.mode().float().std()
    vae.register_to_config(scaling_factor=round(1 / deviation.item(), 5))


@torch.no_grad()
def show_reconstructions(vae, frames, file):
    """For each clip a strip of it, and one of what is left of it after the VAE."""
    rows, far = [], []
    for clip in frames:
        with autocast():
            latents = vae.encode(from_bytes(clip)).latent_dist.mode()
            decoded = to_bytes(vae.decode(latents, num_frames=clips.FRAMES).sample.float())
        far.append((decoded.float() - clip.float()).abs().mean().item())
        rows += [clip, decoded]
    save_strips(rows, file)
    print(f"vae: off by {sum(far) / len(far):.2f} of 255", flush=True)


class ClipPool:
    """Scaled latents of clips, with what the UNet is told of each: its image, and three numbers."""

    def __init__(self, count, seed):
        made, self.frames = drawn(count, seed)
        self.first = self.frames[:, 0].contiguous()
        # Half of the images have the noise that the pipeline puts on them by default.
        strong = (torch.randn(count, device=DEVICE) * 0.7 - 3).exp().clamp(0, 1)
        self.strength = torch.where(torch.rand(count, device=DEVICE) < 0.5, 0.02, strong)
        told = [[fps - 1, motion] for fps, motion in zip(made.fps, made.motion)]
        self.time_ids = torch.cat([torch.tensor(told, device=DEVICE), self.strength.unsqueeze(1)], 1).float()
        side = VIDEO_UNET["sample_size"]
        self.latents = torch.randn(count, clips.FRAMES, 4, side, side, device=DEVICE, dtype=torch.bfloat16)
        self.image_latents = self.latents[:, 0].clone()

    @torch.no_grad()
    def encode(self, vae):
        """Puts the VAE's latents in the place of noise, and lets go of the frames."""
        for rows in torch.arange(len(self.frames), device=DEVICE).split(PART):
            pictures = from_bytes(self.frames[rows])
            noised = pictures[:, 0] + self.strength[rows].view(-1, 1, 1, 1) * torch.randn_like(pictures[:, 0])
            with autocast():
                latents = vae.encode(pictures.flatten(0, 1)).latent_dist.mode()
                image_latents = vae.encode(noised).latent_dist.mode()
            self.latents[rows] = (latents * vae.config.scaling_factor).view_as(self.latents[rows]).bfloat16()
            self.image_latents[rows] = image_latents.bfloat16()
        self.frames = None


def encoder_pixels(pictures):
    """Pictures [B, 3, SIDE, SIDE] in [-1, 1] as the pipeline hands them to the image encoder."""
    mean, std = (torch.tensor(values, device=DEVICE).view(1, 3, 1, 1) for values in (CLIP_MEAN, CLIP_STD))
    side = IMAGE_ENCODER["image_size"]
    return (F.interpolate(pictures, (side, side), mode="bicubic", align_corners=True) / 2 + 0.5 - mean) / std


def noise_levels(count):
    """Sigmas: log-normal, as of Stable Video Diffusion, and a tenth of them from the whole range of its scheduler."""
    usual = torch.randn(count, device=DEVICE) * 1.6 + 0.5
    low, high = (torch.tensor(VIDEO_NOISE_SCHEDULER[name]).log() for name in ("sigma_min", "sigma_max"))
    anywhere = low + (high - low) * torch.rand(count, device=DEVICE)
    return torch.where(torch.rand(count, device=DEVICE) < 0.1, anywhere, usual).exp()


def wait_for(folder):
    while not (folder / "config.json").exists():
        time.sleep(1)


def train_unet(options):
    """The UNet and the image encoder together, by the preconditioning and loss of EDM in the form of v_prediction."""
    torch.manual_seed(1)
    vision = transformers.CLIPVisionConfig(**IMAGE_ENCODER)
    encoder = load(transformers.CLIPVisionModelWithProjection, options.start / "image_encoder", vision)
    unet = load(diffusers.UNetSpatioTemporalConditionModel, options.start / "unet", VIDEO_UNET)
    pool = ClipPool(options.clips, seed=5)

    @torch.compile(disable=DEVICE == "cpu")
    def loss_of(latents, first, image_latents, time_ids, sigma, told):
        with autocast():
            embeds = encoder(encoder_pixels(first)).image_embeds.unsqueeze(1) * told.view(-1, 1, 1)
        level, noise = sigma.view(-1, 1, 1, 1, 1), torch.randn_like(latents)
        scale = (level**2 + 1).sqrt()
        image = (image_latents * told.view(-1, 1, 1, 1)).unsqueeze(1).expand_as(latents)
        inputs = torch.cat([(latents + level * noise) / scale, image], 2)
        with autocast():
            predicted = unet(inputs, 0.25 * sigma.log(), embeds, time_ids, return_dict=False)[0]
        velocity = (noise - level * latents) / scale
        return F.mse_loss(predicted.float(), velocity)

    def loss_of_batch():
        rows = torch.randint(len(pool.first), (options.batch,), device=DEVICE)
        # Guidance needs to know the clip without an image: zeros for both of its forms.
        told = (torch.rand(options.batch, device=DEVICE) >= 0.12).float()
        return loss_of(
            pool.latents[rows].float(),
            from_bytes(pool.first[rows]),
            pool.image_latents[rows].float(),
            pool.time_ids[rows],
            noise_levels(options.batch),
            told,
        )

    loss_of_batch().backward()  # compiles while the VAE trains
    wait_for(options.state / "vae")
    pool.encode(diffusers.AutoencoderKLTemporalDecoder.from_pretrained(str(options.state / "vae")).to(DEVICE).eval())
    seconds = options.seconds if options.until is None else options.until - time.time()
    Training([unet, encoder], 1e-3, options.total or seconds, options.state / "unet.pt").run(loss_of_batch, seconds)
    save(unet, options.state / "unet")
    save(encoder, options.state / "image_encoder")


def export(options):
    """Writes out/video, as fp16."""
    part = lambda model, name: model.from_pretrained(str(options.state / name)).half().eval()
    diffusers.StableVideoDiffusionPipeline(
        vae=part(diffusers.AutoencoderKLTemporalDecoder, "vae"),
        image_encoder=part(transformers.CLIPVisionModelWithProjection, "image_encoder"),
        unet=part(diffusers.UNetSpatioTemporalConditionModel, "unet"),
        scheduler=diffusers.EulerDiscreteScheduler(**VIDEO_NOISE_SCHEDULER),
        feature_extractor=transformers.CLIPImageProcessor(),
    ).save_pretrained(options.out / "video")
    for name in ("unet", "vae"):
        amend(options.out / "video" / name / "config.json", _name_or_path=None)
    # transformers without torchvision names another class, which it has not everywhere.
    amend(options.out / "video/model_index.json", feature_extractor=["transformers", "CLIPImageProcessor"])


def amend(file, **fields):
    """Changes fields of a JSON file; None takes one out."""
    kept = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({name: value for name, value in kept.items() if value is not None}, indent=2) + "\n")


def sheet(options):
    """For each clip a strip of what it should be, and one of what is drawn."""
    pipeline = diffusers.StableVideoDiffusionPipeline.from_pretrained(str(options.out / "video")).to(DEVICE, torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    made, frames = drawn(options.count, seed=77)
    rows, far = [], []
    for number, (scene, fps, motion) in enumerate(zip(made.scenes, made.fps, made.motion)):
        image = PIL.Image.fromarray(frames[number, 0].permute(1, 2, 0).cpu().numpy())
        video = pipeline(
            image,
            height=clips.SIDE,
            width=clips.SIDE,
            fps=fps,
            motion_bucket_id=motion,
            generator=torch.Generator().manual_seed(number),
            output_type="pt",
        ).frames[0]
        video = (video.float() * 255).round().byte()
        far.append((video.float() - frames[number].float()).abs().mean().item())
        print(f"{number}: fps {fps}, motion {motion}, off by {far[-1]:.2f}: {scene.caption}", flush=True)
        rows += [frames[number], video]
    save_strips(rows, options.out / "sheet.png")
    print(f"sheet: off by {sum(far) / len(far):.2f} of 255")


STAGES = {"vae": train_vae, "unet": train_unet, "export": export, "sheet": sheet}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--seconds", type=float, default=300, help="how long to train now")
    parser.add_argument("--until", type=float, help="for unet, in place of --seconds: the Unix time at which it ends")
    parser.add_argument("--total", type=float, help="how long all parts of the stage take together; default: --seconds")
    parser.add_argument("--clips", type=int, default=1 << 16, help="how many clips the UNet sees; the VAE sees a 16th")
    parser.add_argument("--batch", type=int, default=96, help="clips in a step of the UNet; the VAE's has a 6th")
    parser.add_argument("--count", type=int, default=16, help="clips on the sheet")
    parser.add_argument("--start", type=pathlib.Path, default=pathlib.Path("start"), help="networks to begin with, if any")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("state"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    options = parser.parse_args()
    for folder in (options.state, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    STAGES[options.stage](options)


if __name__ == "__main__":
    main()
