"""Records what diffusers' noise schedulers do to a toy latent, for schedule_test.cc: python make_goldens.py > goldens.json

Versions used for what is stored: diffusers 0.42.1, torch 2.11.0, numpy 2.4.6, scipy 1.17.1 (for use_beta_sigmas).
Each case is a class, the fields laid over one scheduler_config.json, and a request. For each evaluation of the
network it records the timestep, the step that users count, the network's input, its output (a smooth function of both), the noise drawn, if any, and
the latents after it.
"""
import itertools
import json
import sys
from types import SimpleNamespace

import numpy
import torch

import diffusers
from diffusers import StableDiffusionXLImg2ImgPipeline
from diffusers.pipelines.stable_diffusion_xl.pipeline_stable_diffusion_xl import retrieve_timesteps

SDXL = dict(beta_end=0.012, beta_schedule="scaled_linear", beta_start=0.00085, num_train_timesteps=1000, prediction_type="epsilon",
            steps_offset=1, timestep_spacing="leading", trained_betas=None, use_karras_sigmas=False)
FILE = dict(_class_name="EulerDiscreteScheduler", _diffusers_version="0.42.1", interpolation_type="linear", **SDXL)
EULER, ANCESTRAL, DDIM, DPM, HEUN, LCM, PNDM = (f"{name}Scheduler" for name in (
    "EulerDiscrete", "EulerAncestralDiscrete", "DDIM", "DPMSolverMultistep", "HeunDiscrete", "LCM", "PNDM"))
UNIPC, LMS, DEIS, DPM2, DPM2A, TCD, EDM_EULER, EDM_DPM = (f"{name}Scheduler" for name in (
    "UniPCMultistep", "LMSDiscrete", "DEISMultistep", "KDPM2Discrete", "KDPM2AncestralDiscrete", "TCD", "EDMEuler", "EDMDPMSolverMultistep"))
NO_GENERATOR = (HEUN, PNDM, UNIPC, LMS, DEIS, DPM2)  # step takes none
TRAINED_BETAS = [0.001 + 0.0001 * i for i in range(100)]


def case(kind, config=None, **request):
    config = dict(config or {})
    if kind == DDIM:
        config.setdefault("clip_sample", False)
    if kind == PNDM:
        config.setdefault("skip_prk_steps", True)
    return {"class": kind, "config": config, "request": {"num_inference_steps": 8, **request}}


def cases():
    for kind, spacing, steps in itertools.product((EULER, ANCESTRAL, DDIM, DPM, HEUN), ("leading", "linspace", "trailing"), (1, 7)):
        yield case(kind, {"timestep_spacing": spacing}, num_inference_steps=steps)
    for kind in (EULER, DDIM, DPM, HEUN, LCM):
        yield case(kind, {"prediction_type": "v_prediction"}, num_inference_steps=6)
        yield case(kind, {"prediction_type": "sample"}, num_inference_steps=6)
    yield case(ANCESTRAL, {"prediction_type": "v_prediction"}, num_inference_steps=6)
    for kind, flag in itertools.product((EULER, DPM, HEUN), ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas")):
        yield case(kind, {flag: True}, num_inference_steps=6)
    for kind in (EULER, DPM, HEUN):
        yield case(kind, {"use_karras_sigmas": True}, num_inference_steps=1)
        yield case(kind, {"use_karras_sigmas": True, "sigma_min": 0.1, "sigma_max": 10.0}, num_inference_steps=5)
    for kind, spacing in itertools.product((EULER, ANCESTRAL, DDIM, DPM, LCM), ("leading", "trailing")):
        yield case(kind, {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": spacing}, num_inference_steps=5)
    yield case(EULER, {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}, num_inference_steps=5)
    for kind in (EULER, DDIM, DPM, LCM):
        yield case(kind, {"beta_schedule": "linear", "beta_start": 0.0001, "beta_end": 0.02}, num_inference_steps=4)
        yield case(kind, {"beta_schedule": "squaredcos_cap_v2"}, num_inference_steps=4)
        yield case(kind, {"trained_betas": TRAINED_BETAS, "num_train_timesteps": 100, "original_inference_steps": 20}, num_inference_steps=4)
    for kind, strength in itertools.product((EULER, ANCESTRAL, DDIM, DPM, HEUN, LCM), (0.3, 0.75, 1.0)):
        yield case(kind, num_inference_steps=9, strength=strength)
    for kind, cut in itertools.product((EULER, DDIM, DPM, HEUN, LCM), (0.8, 0.55)):
        yield case(kind, num_inference_steps=10, denoising_end=cut)
        yield case(kind, num_inference_steps=10, denoising_start=cut)
    for kind, spacing in itertools.product((EULER, HEUN), ("linspace", "trailing")):
        yield case(kind, {"timestep_spacing": spacing}, num_inference_steps=10, denoising_end=0.7)
        yield case(kind, {"timestep_spacing": spacing}, num_inference_steps=10, denoising_start=0.7)
    yield case(EULER, num_inference_steps=12, denoising_start=0.3, denoising_end=0.7)
    yield case(EULER, num_inference_steps=1, denoising_end=0.8)
    yield case(EULER, num_inference_steps=1, denoising_start=0.8)
    yield case(HEUN, num_inference_steps=1, denoising_start=0.9999)

    ays = [999, 845, 730, 587, 443, 310, 193, 116, 53, 13]
    for kind in (EULER, DPM, HEUN, LCM):
        yield case(kind, timesteps=ays)
    yield case(EULER, timesteps=[980.5, 400.25, 3])
    yield case(DPM, timesteps=ays, strength=0.5)
    yield case(HEUN, timesteps=ays, strength=0.75)
    sigmas = [14.615, 6.315, 3.771, 2.181, 1.342, 0.862, 0.555, 0.380, 0.234, 0.113, 0.0]
    yield case(EULER, sigmas=sigmas)
    yield case(EULER, sigmas=sigmas, strength=0.6)

    yield case(EULER, {"final_sigmas_type": "sigma_min"})
    yield case(EULER, {"interpolation_type": "log_linear"})
    yield case(EULER, {"interpolation_type": "log_linear", "use_karras_sigmas": True})
    yield case(EULER, {"timestep_type": "continuous", "prediction_type": "v_prediction"})
    yield case(EULER, {"timestep_spacing": "trailing"}, num_inference_steps=61)
    yield case(DDIM, {"set_alpha_to_one": False})
    for eta in (0.6, 1.0):
        yield case(DDIM, eta=eta)
        yield case(DDIM, {"timestep_spacing": "trailing", "prediction_type": "v_prediction"}, eta=eta, strength=0.8)
    yield case(EULER, eta=0.6)

    for algorithm, kind in itertools.product(("dpmsolver++", "sde-dpmsolver++"), ("midpoint", "heun")):
        both = {"algorithm_type": algorithm, "solver_type": kind}
        yield case(DPM, both)
        yield case(DPM, {**both, "lower_order_final": False}, num_inference_steps=5)
        yield case(DPM, {**both, "final_sigmas_type": "sigma_min", "lower_order_final": False}, num_inference_steps=5)
        yield case(DPM, {**both, "final_sigmas_type": "sigma_min", "lower_order_final": False, "euler_at_final": True}, num_inference_steps=5)
    yield case(DPM, {"algorithm_type": "sde-dpmsolver++", "use_karras_sigmas": True, "prediction_type": "v_prediction"}, num_inference_steps=16)
    yield case(DPM, {"final_sigmas_type": "sigma_min"}, num_inference_steps=16)
    yield case(DPM, {"solver_order": 1}, strength=0.6)
    yield case(DPM, {"use_lu_lambdas": True}, num_inference_steps=7)
    yield case(DPM, {"lambda_min_clipped": -1.5, "timestep_spacing": "trailing"}, num_inference_steps=7)
    yield case(DPM, {"lambda_min_clipped": -1.5, "timestep_spacing": "linspace", "beta_schedule": "squaredcos_cap_v2", "use_karras_sigmas": True}, num_inference_steps=7)
    yield case(LCM, num_inference_steps=4)
    yield case(LCM, {"original_inference_steps": 30, "timestep_scaling": 3.0}, num_inference_steps=7)
    yield case(LCM, num_inference_steps=1)
    for kind in (EULER, DPM, HEUN):
        yield case(kind, num_inference_steps=150, strength=0.05)

    for spacing, steps in itertools.product(("leading", "linspace", "trailing"), (1, 2, 3, 7)):
        yield case(PNDM, {"timestep_spacing": spacing}, num_inference_steps=steps)
    for to_one, offset, kind in itertools.product((True, False), (0, 1), ("epsilon", "v_prediction")):
        yield case(PNDM, {"set_alpha_to_one": to_one, "steps_offset": offset, "prediction_type": kind})
    for strength in (0.05, 0.12, 0.3, 0.75, 0.95, 1.0):
        yield case(PNDM, num_inference_steps=20, strength=strength)
    yield case(PNDM, {"timestep_spacing": "trailing", "prediction_type": "v_prediction"}, num_inference_steps=9, strength=0.7)
    for cut in (0.1, 0.55, 0.8):
        yield case(PNDM, num_inference_steps=10, denoising_end=cut)
        yield case(PNDM, num_inference_steps=10, denoising_start=cut)
    yield case(PNDM, {"beta_schedule": "squaredcos_cap_v2"}, num_inference_steps=4)
    yield case(PNDM, {"trained_betas": TRAINED_BETAS, "num_train_timesteps": 100}, num_inference_steps=4)

    spaced = (UNIPC, LMS, DEIS, DPM2, DPM2A)
    for kind, spacing, steps in itertools.product(spaced, ("leading", "linspace", "trailing"), (1, 7)):
        yield case(kind, {"timestep_spacing": spacing}, num_inference_steps=steps)
    for kind, flag in itertools.product(spaced, ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas")):
        yield case(kind, {flag: True}, num_inference_steps=6)
    for kind in spaced + (TCD,):
        yield case(kind, {"prediction_type": "v_prediction"}, num_inference_steps=6)
        for cut in (0.8, 0.55):
            yield case(kind, num_inference_steps=10, denoising_end=cut)
    for kind in (UNIPC, DEIS, DPM2, DPM2A, TCD):  # diffusers' LMS draws noise from the middle on (huggingface/diffusers#5630)
        for cut in (0.8, 0.55):
            yield case(kind, num_inference_steps=10, denoising_start=cut)
        for strength in (0.3, 0.75, 1.0):
            yield case(kind, num_inference_steps=9, strength=strength)
    for order, solver in itertools.product((1, 2, 3), ("bh1", "bh2")):
        both = {"solver_order": order, "solver_type": solver}
        yield case(UNIPC, {**both, "final_sigmas_type": "sigma_min"})
        yield case(UNIPC, {**both, "final_sigmas_type": "sigma_min", "lower_order_final": False})
    for order in (1, 3):
        yield case(UNIPC, {"solver_order": order})
        yield case(UNIPC, {"solver_order": order}, num_inference_steps=20, strength=0.4)
        yield case(DEIS, {"solver_order": order})
        yield case(DEIS, {"solver_order": order, "lower_order_final": False})
    yield case(UNIPC, {"disable_corrector": [0, 3], "solver_type": "midpoint"})
    yield case(UNIPC, {"use_karras_sigmas": True, "final_sigmas_type": "sigma_min"})
    yield case(UNIPC, {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"}, num_inference_steps=5)
    yield case(UNIPC, {"prediction_type": "sample"})
    yield case(DEIS, num_inference_steps=16)
    for algorithm, lower in itertools.product(("dpmsolver++", "sde-dpmsolver++"), (True, False)):
        yield case(DPM, {"solver_order": 3, "algorithm_type": algorithm, "lower_order_final": lower})
        yield case(DPM, {"solver_order": 3, "algorithm_type": algorithm, "lower_order_final": lower, "use_karras_sigmas": True}, num_inference_steps=16, strength=0.6)
    for eta in (0.3, 1.0):
        yield case(TCD, num_inference_steps=4, eta=eta)
        yield case(TCD, num_inference_steps=8, eta=eta, strength=0.6)
    yield case(TCD, num_inference_steps=1)
    yield case(TCD, {"original_inference_steps": 30}, num_inference_steps=7)
    yield case(TCD, {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}, num_inference_steps=5, eta=0.5)
    yield case(TCD, timesteps=[999, 700, 350, 20], eta=0.3)
    for kind in (EDM_EULER, EDM_DPM):
        for steps, prediction in itertools.product((1, 7), ("epsilon", "v_prediction")):
            yield case(kind, {"prediction_type": prediction}, num_inference_steps=steps)
        yield case(kind, {"sigma_schedule": "exponential", "final_sigmas_type": "sigma_min", "sigma_data": 1.0, "sigma_max": 120.0})
        yield case(kind, {"rho": 5.0}, strength=0.6)
    for order, lower in itertools.product((1, 3), (True, False)):
        yield case(EDM_DPM, {"solver_order": order, "lower_order_final": lower})
    yield case(EDM_DPM, {"solver_type": "heun"}, num_inference_steps=16)
    yield case(EDM_DPM, {"algorithm_type": "sde-dpmsolver++"})


def window(scheduler, request):
    """The timesteps that the pipelines run, as they take them, and how far their progress bar is at each."""
    steps, own = request["num_inference_steps"], {k: request[k] for k in ("timesteps", "sigmas") if k in request}
    timesteps, steps = retrieve_timesteps(scheduler, steps, "cpu", **own)
    train = scheduler.config.num_train_timesteps
    if "strength" in request or "denoising_start" in request:
        pipe = SimpleNamespace(scheduler=scheduler)
        timesteps, steps = StableDiffusionXLImg2ImgPipeline.get_timesteps(
            pipe, steps, request.get("strength"), "cpu", denoising_start=request.get("denoising_start"))
    elif hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)
    warmup = max(len(timesteps) - steps * scheduler.order, 0)
    if "denoising_end" in request:
        cutoff = int(round(train - request["denoising_end"] * train))
        timesteps = timesteps[:len([t for t in timesteps if t >= cutoff])]
    moves = [i + 1 > warmup and (i + 1) % scheduler.order == 0 for i in range(len(timesteps))]
    return timesteps, [sum(moves[:i]) for i in range(len(timesteps))]


def numbers(tensor):
    """As short as float32 can be written."""
    return [float(str(numpy.float32(v))) for v in tensor.flatten().tolist()]


def run(case):
    request = case["request"]
    scheduler = getattr(diffusers, case["class"]).from_config({**FILE, **case["config"]})
    timesteps, progress = window(scheduler, request)
    generator = torch.Generator("cpu").manual_seed(5)
    image, noise = (torch.randn(1, 2, generator=generator) for _ in range(2))
    result = {"initial_noise_scale": float(scheduler.init_noise_sigma)}
    if "strength" in request:
        x = scheduler.add_noise(image, noise, timesteps[:1])
    else:
        x = noise * scheduler.init_noise_sigma
    result.update(image=numbers(image), noise=numbers(noise), start=numbers(x), evaluations=[])
    more = {"eta": request.get("eta", 0.0)} if case["class"] in (DDIM, TCD) else {}  # as the pipelines pass it
    for t, step in zip(timesteps, progress):
        seen = scheduler.scale_model_input(x, t)
        output = 0.6 * seen + torch.sin(float(t) / 150 + torch.arange(2.0))
        before = torch.Generator("cpu").set_state(generator.get_state())
        random = {} if case["class"] in NO_GENERATOR else {"generator": generator}
        x = scheduler.step(output, t, x, **more, **({} if case["class"] == DPM and "sde" not in scheduler.config.algorithm_type else random)).prev_sample
        drawn = not torch.equal(before.get_state(), generator.get_state())
        result["evaluations"].append(dict(timestep=float(t), step=step, input=numbers(seen), output=numbers(output),
                                          noise=numbers(torch.randn(1, 2, generator=before)) if drawn else None, x=numbers(x)))
    return {**case, "result": result}


if __name__ == "__main__":
    rows = [json.dumps(run(c)) for c in cases()]
    sys.stdout.write('{"file": ' + json.dumps(FILE) + ',\n"cases": [\n' + ",\n".join(rows) + "\n]}\n")
