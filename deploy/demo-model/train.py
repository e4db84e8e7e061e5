"""Trains the demo checkpoint: a small SDXL base and refiner in the diffusers layout, on the pictures of scenes.py.

Usage: python train.py STAGE [--seconds S] [--total T] [--state FOLDER] [--out FOLDER]
The stages, in order: vae, base, refiner, export. Each reads what the one before left in the state folder; a stage
that is called again goes on where it stopped, so that long training can be cut into parts of S seconds out of T.

Needs one CUDA GPU, and torch, diffusers and transformers.
"""

import argparse
import pathlib
import random
import shutil

import diffusers
import torch
import torch.nn.functional as F
import transformers

import scenes
import vocabulary
from networks import BASE_UNET, NOISE_SCHEDULER, REFINER_UNET, TRAINING_STEPS, VAE, text_config
from training import Training

# (height, width)
BUCKETS = ((256, 256), (192, 320), (320, 192))
REFINER_STEPS = 250  # the refiner sees the last quarter of the noise
SCORE, LOW_SCORE = 6.0, 2.5  # aesthetic scores: drawn well, and blurred on purpose


def autocast():
    return torch.autocast("cuda", torch.bfloat16)


def channels_last(tensor):
    return tensor.contiguous(memory_format=torch.channels_last)


def random_crop(pictures, side):
    top, left = (random.randrange(size - side + 1) for size in pictures.shape[2:])
    return pictures[:, :, top : top + side, left : left + side]


def reconstruction_loss(decoded, pictures):
    """Values, and twice as important their differences from pixel to pixel, which keep edges sharp."""
    edges = sum(F.l1_loss(decoded.diff(dim=d), pictures.diff(dim=d)) for d in (2, 3))
    return F.l1_loss(decoded, pictures) + F.mse_loss(decoded, pictures) + 2.0 * edges


def train_vae(state, seconds, total_seconds):
    torch.manual_seed(0)
    vae = diffusers.AutoencoderKL(**VAE).cuda().to(memory_format=torch.channels_last)
    pictures = {bucket: torch.cat([picture_part(bucket, part) for part in range(8)]) for bucket in BUCKETS}

    @torch.compile
    def loss_of(batch):
        with autocast():
            posterior = vae.encode(batch).latent_dist
            decoded = vae.decode(posterior.sample()).sample
        return reconstruction_loss(decoded.float(), batch) + 1e-6 * posterior.kl().mean()

    def loss_of_batch():
        pool = pictures[random.choice(BUCKETS)]
        rows = torch.randint(len(pool), (96,), device="cuda")
        return loss_of(channels_last(random_crop(pool[rows], 128).float()))

    Training([vae], 1.5e-3, total_seconds, state / "vae.pt").run(loss_of_batch, seconds)
    vae.eval()
    deviation = latent_deviation(vae, [pool[:512].float() for pool in pictures.values()])
    vae.register_to_config(scaling_factor=round(1 / deviation, 5))
    vae.save_pretrained(state / "vae")


def picture_part(bucket, part):
    return scenes.draw(scenes.sample(1024, 1000 * BUCKETS.index(bucket) + part), *bucket).half()


@torch.no_grad()
def latent_deviation(vae, batches):
    """The standard deviation of latents, which scaling_factor brings to 1."""
    with autocast():
        latents = [vae.encode(batch).latent_dist.sample().flatten() for batch in batches]
    return torch.cat(latents).float().std().item()


def blurred(pictures):
    """The pictures that the refiner is to learn as ones of a low aesthetic score."""
    return F.avg_pool2d(F.pad(pictures, (4,) * 4, mode="reflect"), 9, 1) + 0.05 * torch.randn_like(pictures)


class LatentPool:
    """Scaled latents of captioned pictures in one bucket, with the captions as both tokenizers' ids."""

    PART = 512

    @torch.no_grad()
    def __init__(self, vae, bucket, count, seed, change=None):
        latents, first_ids, second_ids = [], [], []
        for part in range(0, count, self.PART):
            batch = scenes.sample(self.PART, seed + 100003 * BUCKETS.index(bucket) + part)
            pictures = scenes.draw(batch, *bucket)
            with autocast():
                posterior = vae.encode(change(pictures) if change else pictures).latent_dist
                latents.append((posterior.sample() * vae.config.scaling_factor).half())
            first_ids += [vocabulary.encode(scene.caption, vocabulary.FIRST_PAD) for scene in batch]
            second_ids += [vocabulary.encode(scene.caption, vocabulary.SECOND_PAD) for scene in batch]
        self.latents = torch.cat(latents)
        self.first_ids = torch.tensor(first_ids, device="cuda")
        self.second_ids = torch.tensor(second_ids, device="cuda")

    def rows(self, count):
        """(latents, first ids, second ids) of `count` rows drawn at random."""
        rows = torch.randint(len(self.latents), (count,), device="cuda")
        return self.latents[rows].float(), self.first_ids[rows], self.second_ids[rows]


def drawn_well(vae):
    return {bucket: LatentPool(vae, bucket, 512 * 80, seed=5) for bucket in BUCKETS}


def drawn_badly(vae):
    return {bucket: LatentPool(vae, bucket, 512 * 12, seed=11, change=blurred) for bucket in BUCKETS}


class Noising:
    """Adds noise as the noise scheduler does in training, with a little of its own for each whole channel.

    The offset lets the model learn pictures that are dark or light all over.
    """

    OFFSET = 0.03

    def __init__(self, timesteps):
        self.timesteps = timesteps
        self.alphas = diffusers.EulerDiscreteScheduler(**NOISE_SCHEDULER).alphas_cumprod.cuda()

    def __call__(self, latents):
        """(timesteps, noise, noised latents)"""
        timesteps = torch.randint(self.timesteps, (len(latents),), device="cuda")
        noise = torch.randn_like(latents)
        noise += self.OFFSET * torch.randn(*latents.shape[:2], 1, 1, device="cuda")
        alphas = self.alphas[timesteps].view(-1, 1, 1, 1)
        return timesteps, noise, alphas.sqrt() * latents + (1 - alphas).sqrt() * noise


def denoising_loss(unet, noising, latents, text, pooled, time_ids):
    timesteps, noise, noised = noising(latents)
    ids = torch.tensor(time_ids, device="cuda", dtype=torch.float32).expand(len(latents), -1)
    conditions = {"text_embeds": pooled, "time_ids": ids}
    with autocast():
        predicted = unet(channels_last(noised), timesteps, text, added_cond_kwargs=conditions).sample
    return F.mse_loss(predicted.float(), noise)


def some_rows(count, share):
    """[count, 1]: true for each row with the probability `share`."""
    return torch.rand(count, 1, device="cuda") < share


def load_vae(state):
    return diffusers.AutoencoderKL.from_pretrained(state / "vae").cuda().eval()


def train_base(state, seconds, total_seconds, batch=256):
    """The UNet and both text encoders together."""
    torch.manual_seed(1)
    first = transformers.CLIPTextModel(text_config(64, "quick_gelu", vocabulary.FIRST_PAD)).cuda()
    second = transformers.CLIPTextModelWithProjection(text_config(96, "gelu", vocabulary.SECOND_PAD)).cuda()
    unet = diffusers.UNet2DConditionModel(**BASE_UNET).cuda().to(memory_format=torch.channels_last)
    pools, noising = drawn_well(load_vae(state)), Noising(TRAINING_STEPS)
    pads = vocabulary.FIRST_PAD, vocabulary.SECOND_PAD
    empty = [torch.tensor(vocabulary.encode("", pad), device="cuda") for pad in pads]

    def loss_of_batch():
        bucket = random.choice(BUCKETS)
        latents, first_ids, second_ids = pools[bucket].rows(batch)
        # Guidance needs to know the picture without a prompt: an empty one, or (SDXL's way) zeros for its states.
        no_words = some_rows(batch, 0.03)
        with_text = 1 - some_rows(batch, 0.1).float()
        with autocast():
            one = first(torch.where(no_words, empty[0], first_ids), output_hidden_states=True)
            two = second(torch.where(no_words, empty[1], second_ids), output_hidden_states=True)
        text = torch.cat([one.hidden_states[-2], two.hidden_states[-2]], -1) * with_text.unsqueeze(-1)
        return denoising_loss(unet, noising, latents, text, two.text_embeds * with_text, [*bucket, 0, 0, *bucket])

    Training([unet, first, second], 1e-3, total_seconds, state / "base.pt").run(loss_of_batch, seconds)
    unet.save_pretrained(state / "unet")
    first.save_pretrained(state / "text_encoder")
    second.save_pretrained(state / "text_encoder_2")


def train_refiner(state, seconds, total_seconds, batch=256):
    """A UNet for the last quarter of the noise, with the base's second text encoder, which stays as it is."""
    torch.manual_seed(2)
    second = transformers.CLIPTextModelWithProjection.from_pretrained(state / "text_encoder_2").cuda().eval()
    unet = diffusers.UNet2DConditionModel(**REFINER_UNET).cuda().to(memory_format=torch.channels_last)
    vae, noising = load_vae(state), Noising(REFINER_STEPS)
    pools = {SCORE: drawn_well(vae), LOW_SCORE: drawn_badly(vae)}

    def loss_of_batch():
        bucket = random.choice(BUCKETS)
        score = SCORE if random.random() < 0.8 else LOW_SCORE
        latents, _, ids = pools[score][bucket].rows(batch)
        with_text = 1 - some_rows(batch, 0.1).float()
        with torch.no_grad(), autocast():
            states = second(ids, output_hidden_states=True)
        text = states.hidden_states[-2] * with_text.unsqueeze(-1)
        return denoising_loss(unet, noising, latents, text, states.text_embeds * with_text, [*bucket, 0, 0, score])

    Training([unet], 1e-3, total_seconds, state / "refiner.pt").run(loss_of_batch, seconds)
    unet.save_pretrained(state / "refiner_unet")


def load_tokenizer(folder, pad):
    """transformers' tokenizer from our files, checked against our own encoding."""
    vocabulary.save(folder, pad)
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder)
    caption = "a red circle on a blue background"
    ids = tokenizer(caption, padding="max_length", max_length=vocabulary.LENGTH).input_ids
    if ids != vocabulary.encode(caption, pad):
        raise RuntimeError(f"transformers reads the vocabulary in {folder} in another way")
    return tokenizer


def export(state, out):
    """Writes out/base and out/refiner, as fp16, the shared parts in both."""
    load = lambda model, name: model.from_pretrained(state / name).half().eval()
    shared = {
        "vae": load(diffusers.AutoencoderKL, "vae"),
        "text_encoder_2": load(transformers.CLIPTextModelWithProjection, "text_encoder_2"),
        "tokenizer_2": load_tokenizer(state / "tokenizer_2", vocabulary.SECOND_PAD),
        "scheduler": diffusers.EulerDiscreteScheduler(**NOISE_SCHEDULER),
        "add_watermarker": False,
    }
    base = diffusers.StableDiffusionXLPipeline(
        **shared,
        unet=load(diffusers.UNet2DConditionModel, "unet"),
        text_encoder=load(transformers.CLIPTextModel, "text_encoder"),
        tokenizer=load_tokenizer(state / "tokenizer", vocabulary.FIRST_PAD),
    )
    refiner = diffusers.StableDiffusionXLImg2ImgPipeline(
        **shared,
        unet=load(diffusers.UNet2DConditionModel, "refiner_unet"),
        text_encoder=None,
        tokenizer=None,
        requires_aesthetics_score=True,
        force_zeros_for_empty_prompt=False,
    )
    base.save_pretrained(out / "base")
    refiner.save_pretrained(out / "refiner")
    keep_vocabulary(out / "base/tokenizer", vocabulary.FIRST_PAD)
    keep_vocabulary(out / "base/tokenizer_2", vocabulary.SECOND_PAD)
    keep_vocabulary(out / "refiner/tokenizer_2", vocabulary.SECOND_PAD)


def keep_vocabulary(folder, pad):
    """Puts vocab.json and merges.txt in the place of tokenizer.json, which transformers 5 writes instead."""
    shutil.rmtree(folder)
    vocabulary.save(folder, pad)


STAGES = {"vae": train_vae, "base": train_base, "refiner": train_refiner}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=[*STAGES, "export"])
    parser.add_argument("--seconds", type=float, default=300, help="how long to train now")
    parser.add_argument("--total", type=float, help="how long all parts of the stage take together; default: --seconds")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("state"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    arguments = parser.parse_args()
    if arguments.stage == "export":
        export(arguments.state, arguments.out)
        return
    arguments.state.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    STAGES[arguments.stage](arguments.state, arguments.seconds, arguments.total or arguments.seconds)


if __name__ == "__main__":
    main()
