"""The diffusers side: runs what it is told to, and says how long each run took.

A line of JSON on standard input is one command, a line on standard output its answer; everything else goes to standard error.
Networks run as diffusers' documentation says: channels last, fused QKV, with --mode compile torch.compile(mode="reduce-overhead",
fullgraph=True), each shape compiled for itself. A picture is the denoising loop and the decoder, up to pixels on the host; the
prompt is encoded before, and no PNG is made.
"""

import argparse
import json
import os
import sys
import time

import diffusers
import torch
from diffusers import (AutoencoderKL, AutoencoderKLTemporalDecoder, ControlNetModel, EulerDiscreteScheduler, UNet2DConditionModel,
                       UNetSpatioTemporalConditionModel)

WARM_RUNS = 3
TOKENS = 77
CHANNELS_LAST = torch.channels_last


class Clock:
    """Milliseconds of runs that are enqueued behind each other."""

    def __init__(self, device):
        self._on_gpu = device == "cuda"

    def synchronize(self):
        if self._on_gpu:
            torch.cuda.synchronize()

    def mark(self):
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first, second):
        return first.elapsed_time(second) if self._on_gpu else 1000 * (second - first)

    def runs(self, run, count):
        marks = [self.mark()]
        for _ in range(count):
            run()
            marks.append(self.mark())
        self.synchronize()
        return [self.between(*pair) for pair in zip(marks, marks[1:])]


class F8Linear(torch.nn.Module):
    """A linear in e4m3, as PyTorch's libraries for it compute one: a scale for each row of the weight, which is made once, and for
    each row that it reads, found as it comes. Where PyTorch has no such product (on CPUs), what was rounded is multiplied in full."""

    def __init__(self, linear):
        super().__init__()
        weight, scale = self.rounded(linear.weight.detach())
        self.weight, self.scale, self.bias = (torch.nn.Parameter(value, requires_grad=False) if value is not None else None
                                              for value in (weight, scale, linear.bias))

    @staticmethod
    def rounded(rows):
        most = torch.finfo(torch.float8_e4m3fn).max
        scale = (rows.abs().amax(1, keepdim=True).float() / most).clamp(min=1e-12)
        return (rows.float() / scale).clamp(-most, most).to(torch.float8_e4m3fn), scale

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        values, scale = self.rounded(rows)
        if x.is_cuda:
            y = torch._scaled_mm(values, self.weight.t(), scale_a=scale, scale_b=self.scale.t(), bias=self.bias, out_dtype=x.dtype,
                                 use_fast_accum=True)
        else:
            y = torch.nn.functional.linear((values.float() * scale).to(x.dtype), (self.weight.float() * self.scale).to(x.dtype), self.bias)
        return y.reshape(*x.shape[:-1], -1)


def round_linears(network):
    """Puts linears in e4m3 in the place of those of its transformers."""
    for name, module in list(network.named_modules()):
        for child_name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and "attentions" in f"{name}.{child_name}":
                setattr(module, child_name, F8Linear(child))


class Unet:
    def __init__(self, peer, folder, in_f8=False):
        unet = UNet2DConditionModel.from_pretrained(folder, subfolder="unet", torch_dtype=peer.dtype)
        unet = unet.to(peer.device).to(memory_format=CHANNELS_LAST).eval()
        unet.fuse_qkv_projections()
        if in_f8:
            round_linears(unet)
        self._peer, self._config, self._inputs = peer, unet.config, {}
        self.timestep = torch.tensor(500.0, device=peer.device)
        index = os.path.join(folder, "model_index.json")
        with open(index) as file:
            self._time_ids = 5 if json.load(file).get("requires_aesthetics_score") else 6
        self._unet = peer.compiled(unet)

    def added(self, rows, height):
        """Values that SDXL's are told beside the prompt; SD 1.5's nothing."""
        if self._config.addition_embed_type is None:
            return {}
        pooled = self._config.projection_class_embeddings_input_dim - self._time_ids * self._config.addition_time_embed_dim
        return {"added_cond_kwargs": {"text_embeds": self._peer.random(rows, pooled),
                                      "time_ids": self._peer.random(rows, self._time_ids).fill_(height)}}

    def inputs(self, rows, height, width):
        """Always the same memory for a shape, so that nothing is compiled twice."""
        key = rows, height, width
        if key not in self._inputs:
            self._inputs[key] = {
                "sample": self._peer.random(rows, 4, height // 8, width // 8),
                "encoder_hidden_states": self._peer.random(rows, TOKENS, self._config.cross_attention_dim),
                **self.added(rows, height)}
        return self._inputs[key]

    def run(self, rows, height, width):
        self._peer.begin_step()
        return self._unet(timestep=self.timestep, return_dict=False, **self.inputs(rows, height, width))[0].clone()


class Vae:
    def __init__(self, peer, folder):
        self._vae = AutoencoderKL.from_pretrained(folder, subfolder="vae", torch_dtype=peer.dtype)
        self._vae = self._vae.to(peer.device).to(memory_format=CHANNELS_LAST).eval()
        self._vae.fuse_qkv_projections()
        self._vae.decoder = peer.compiled(self._vae.decoder)
        self._peer, self._latents = peer, {}
        self.scaling_factor = self._vae.config.scaling_factor

    def latents(self, rows, height, width):
        key = rows, height, width
        if key not in self._latents:
            self._latents[key] = self._peer.random(rows, 4, height // 8, width // 8)
        return self._latents[key]

    def run(self, rows, height, width):
        self._peer.begin_step()
        return self._vae.decode(self.latents(rows, height, width), return_dict=False)[0].clone()


class ControlledUnet(Unet):
    """The base's UNet, behind a ControlNet that reads the same inputs and a hint."""

    def __init__(self, peer, folder, net):
        super().__init__(peer, folder)
        net = ControlNetModel.from_pretrained(net, torch_dtype=peer.dtype).to(peer.device).to(memory_format=CHANNELS_LAST).eval()
        self._net, self._hints = peer.compiled(net), {}

    def run(self, rows, height, width):
        self._peer.begin_step()
        key = rows, height, width
        if key not in self._hints:
            self._hints[key] = self._peer.random(rows, 3, height, width)
        inputs = self.inputs(rows, height, width)
        down, middle = self._net(timestep=self.timestep, controlnet_cond=self._hints[key], return_dict=False, **inputs)
        return self._unet(timestep=self.timestep, return_dict=False, down_block_additional_residuals=down,
                          mid_block_additional_residual=middle, **inputs)[0].clone()


class VideoUnet:
    """As diffusers has it: channels last are not for its convolutions over time."""

    def __init__(self, peer, folder):
        unet = UNetSpatioTemporalConditionModel.from_pretrained(folder, subfolder="unet", torch_dtype=peer.dtype)
        self._config, self._peer, self._inputs = unet.config, peer, {}
        self._unet = peer.compiled(unet.to(peer.device).eval())
        self._timestep = torch.tensor(1.0, device=peer.device)

    def run(self, rows, height, width):
        self._peer.begin_step()
        key, c = (rows, height, width), self._config
        if key not in self._inputs:
            self._inputs[key] = {"sample": self._peer.random(rows, c.num_frames, c.in_channels, height // 8, width // 8),
                                 "encoder_hidden_states": self._peer.random(rows, 1, c.cross_attention_dim),
                                 "added_time_ids": self._peer.random(rows, 3)}
        return self._unet(timestep=self._timestep, return_dict=False, **self._inputs[key])[0].clone()


class VideoVae:
    """Its rows are the frames that are decoded together."""

    def __init__(self, peer, folder):
        vae = AutoencoderKLTemporalDecoder.from_pretrained(folder, subfolder="vae", torch_dtype=peer.dtype)
        self._vae = vae.to(peer.device).eval()
        self._vae.decoder = peer.compiled(self._vae.decoder)
        self._peer, self._latents = peer, {}

    def run(self, rows, height, width):
        self._peer.begin_step()
        key = rows, height, width
        if key not in self._latents:
            self._latents[key] = self._peer.random(rows, 4, height // 8, width // 8).contiguous()
        return self._vae.decode(self._latents[key], num_frames=rows, return_dict=False)[0].clone()


def draw_float32_noise():
    """Makes torch.randn draw float32 numbers for every dtype, as latentd does."""
    draw = torch.randn

    def randn(*size, dtype=None, **options):
        drawn = draw(*size, dtype=torch.float32, **options)
        return drawn if dtype is None else drawn.to(dtype)

    torch.randn = randn


class Clip:
    """Whole clips by diffusers' pipeline, in a dtype: frames as numbers from 0 to 255."""

    def __init__(self, peer, dtype):
        from diffusers import StableVideoDiffusionPipeline
        torch.backends.cudnn.allow_tf32 = False
        self._pipeline = StableVideoDiffusionPipeline.from_pretrained(f"{peer.checkpoint}/svd", torch_dtype=dtype)
        self._pipeline.to(peer.device, dtype)  # also the components that were not loaded in it
        self._pipeline.set_progress_bar_config(disable=True)
        encode = self._pipeline.vae.encode  # the pipeline casts for it in fp16 alone
        self._pipeline.vae.encode = lambda x, *arguments, **options: encode(x.to(dtype), *arguments, **options)

    def draw(self, image, width, height, steps, seed):
        from PIL import Image
        frames = self._pipeline(image=Image.open(image).convert("RGB"), width=width, height=height, num_inference_steps=steps,
                                generator=torch.Generator("cpu").manual_seed(seed), output_type="np").frames[0]
        return (frames * 255).round()


def frames_in(folder):
    """Frames of the files in it, in the order of their names."""
    import numpy
    from PIL import Image
    return numpy.stack([numpy.asarray(Image.open(os.path.join(folder, name)), dtype=numpy.float32) for name in sorted(os.listdir(folder))])


class Text:
    """Both encoders, eager in either mode: they run once a picture."""

    def __init__(self, peer, folder):
        from transformers import CLIPTextModel, CLIPTextModelWithProjection
        self._ids = torch.randint(0, 600, (1, TOKENS), device=peer.device)
        self._encoders = [kind.from_pretrained(os.path.join(folder, name)).to(peer.device, peer.dtype).eval()
                          for kind, name in ((CLIPTextModel, "text_encoder"), (CLIPTextModelWithProjection, "text_encoder_2"))]

    def run(self, *_):
        return [encoder(self._ids, output_hidden_states=True).last_hidden_state for encoder in self._encoders][-1]


class Peer:
    def __init__(self, options):
        self.device, self.mode = options.device, options.mode
        self.dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[options.precision]
        self.checkpoint = self._checkpoint = options.checkpoint
        self._networks, self._schedulers = {}, {}
        self.clock = Clock(options.device)
        torch.manual_seed(0)
        torch._dynamo.config.recompile_limit = 64

    @torch.inference_mode(False)
    def random(self, *shape):
        """An ordinary tensor, an image's channels last."""
        drawn = torch.randn(*shape, device=self.device).to(self.dtype)
        return drawn.to(memory_format=CHANNELS_LAST) if len(shape) == 4 else drawn

    def compiled(self, network):
        if self.mode == "eager":
            return network
        return torch.compile(network, mode="reduce-overhead", fullgraph=True, dynamic=False)

    def begin_step(self):
        """Allows the last run's results to be written over."""
        if self.mode == "compile":
            torch.compiler.cudagraph_mark_step_begin()

    def network(self, name):
        makers = {"unet": lambda: Unet(self, f"{self._checkpoint}/base"), "vae": lambda: Vae(self, f"{self._checkpoint}/base"),
                  "unet_f8": lambda: Unet(self, f"{self._checkpoint}/base", in_f8=True),
                  "refiner": lambda: Unet(self, f"{self._checkpoint}/refiner"), "text": lambda: Text(self, f"{self._checkpoint}/base"),
                  "sd15_unet": lambda: Unet(self, f"{self._checkpoint}/sd15"), "sd15_vae": lambda: Vae(self, f"{self._checkpoint}/sd15"),
                  "controlled": lambda: ControlledUnet(self, f"{self._checkpoint}/base", f"{self._checkpoint}/adapters/edges"),
                  "svd_unet": lambda: VideoUnet(self, f"{self._checkpoint}/svd"),
                  "svd_vae": lambda: VideoVae(self, f"{self._checkpoint}/svd")}
        if name not in self._networks:
            with torch.inference_mode(False):
                self._networks[name] = makers[name]()
            self.clock.synchronize()
        return self._networks[name]

    def run_network(self, network, rows, width, height, runs):
        """{"samples": ms of each run, "first": s of the first one, compiling included, "not_finite": values of its result}"""
        kept = self.network(network)
        begin = time.perf_counter()
        found = kept.run(rows, height, width)
        self.clock.synchronize()
        first = time.perf_counter() - begin
        not_finite = int((~torch.isfinite(found)).sum())
        self.clock.runs(lambda: kept.run(rows, height, width), min(WARM_RUNS, runs))
        return {"samples": self.clock.runs(lambda: kept.run(rows, height, width), runs), "first": first, "not_finite": not_finite}

    def scheduler(self, model):
        if model not in self._schedulers:
            self._schedulers[model] = EulerDiscreteScheduler.from_pretrained(f"{self._checkpoint}/{model}", subfolder="scheduler")
        return self._schedulers[model]

    def draw(self, model, steps, guidance, width, height):
        prefix = "" if model == "base" else f"{model}_"
        unet, vae = self.network(f"{prefix}unet"), self.network(f"{prefix}vae")
        scheduler = self.scheduler(model)
        rows = 2 if guidance > 1 else 1
        scheduler.set_timesteps(steps, device=self.device)
        latents = self.random(1, 4, height // 8, width // 8) * scheduler.init_noise_sigma
        sample = unet.inputs(rows, height, width)["sample"]
        for timestep in scheduler.timesteps:
            sample.copy_(scheduler.scale_model_input(torch.cat([latents] * rows), timestep))
            unet.timestep.copy_(timestep)
            noise = unet.run(rows, height, width)
            if rows == 2:
                negative, positive = noise.chunk(2)
                noise = negative + guidance * (positive - negative)
            latents = scheduler.step(noise, timestep, latents, return_dict=False)[0]
        vae.latents(1, height, width).copy_(latents / vae.scaling_factor)
        image = vae.run(1, height, width)
        return ((image / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu()

    def run_pictures(self, model, steps, guidance, width, height, count):
        """{"samples": ms of each picture}"""
        samples = []
        for _ in range(count):
            begin = time.perf_counter()
            self.draw(model, steps, guidance, width, height)
            samples.append(1000 * (time.perf_counter() - begin))
        return {"samples": samples}

    def run_likeness(self, folder, **clip):
        """How far frames in files, and diffusers' own of this precision, are from diffusers' in float32 on average, in 1/255."""
        draw_float32_noise()
        with torch.inference_mode(False), torch.no_grad():
            exact = Clip(self, torch.float32).draw(**clip)
            torch.cuda.empty_cache()
            own = Clip(self, self.dtype).draw(**clip)
        return {name: float(abs(frames - exact).mean()) for name, frames in (("files", frames_in(folder)), ("own", own))}

    def answer(self, command):
        kind = command.pop("do")
        with torch.inference_mode():
            answer = {"network": self.run_network, "pictures": self.run_pictures, "likeness": self.run_likeness}[kind](**command)
        if self.device == "cuda":
            answer["memory_bytes"] = torch.cuda.memory_reserved()
        return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="a folder of base/, refiner/ and sd15/, as far as they are asked for")
    parser.add_argument("--mode", choices=("eager", "compile"), required=True)
    parser.add_argument("--precision", choices=("bf16", "fp16", "fp32"), required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    peer = Peer(parser.parse_args())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"versions": {"diffusers": diffusers.__version__, "torch": torch.__version__}}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = peer.answer(json.loads(line))
        except Exception as error:  # any error of torch and diffusers is an answer
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
