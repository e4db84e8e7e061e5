"""Records what diffusers' noise schedulers do to a toy latent, for schedule_golden_test.cc: python make_goldens.py > goldens.json

Versions used for what is stored: diffusers 0.42.1, torch 2.11.0, numpy 2.4.6, scipy 1.17.1 (for use_beta_sigmas),
torchsde 0.2.6 (DPMSolverSDEScheduler wants it), k-diffusion 0.1.1.post1 with torchdiffeq 0.2.5 (for what diffusers has not).
Each case is a class, the fields laid over one scheduler_config.json, and a request. For each evaluation of the
network it records the timestep, the step that users count, the network's input, its output (a smooth function of both), the noise drawn, if any, and
the latents after it. Cases of the class "k-diffusion" run its own functions, over noise levels that are computed here by
the rules of the web UIs (GRIDS); ipndm, which it has not, is written out here.
"""
import importlib.util
import itertools
import json
import math
import sys
from types import ModuleType, SimpleNamespace

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
SINGLE, SDE, DDPM, SA = (f"{name}Scheduler" for name in ("DPMSolverSinglestep", "DPMSolverSDE", "DDPM", "SASolver"))
NO_GENERATOR = (HEUN, PNDM, UNIPC, LMS, DEIS, DPM2, SDE)  # step takes none
TRAINED_BETAS = [0.001 + 0.0001 * i for i in range(100)]


def case(kind, config=None, **request):
    config = dict(config or {})
    if kind in (DDIM, DDPM):
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
    video = {"timestep_type": "continuous", "prediction_type": "v_prediction", "use_karras_sigmas": True,
             "sigma_min": 0.002, "sigma_max": 700.0}  # Stable Video Diffusion
    yield case(EULER, video, num_inference_steps=25)
    yield case(EULER, video, sigmas=[700.0, 54.5, 15.886, 7.977, 4.248, 1.789, 0.981, 0.403, 0.173, 0.034, 0.002])
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
    yield from later_cases()
    yield from k_cases()


def later_cases():
    for order, algorithm, solver in itertools.product((1, 2, 3), ("dpmsolver++", "sde-dpmsolver++"), ("midpoint", "heun")):
        both = {"solver_order": order, "algorithm_type": algorithm, "solver_type": solver}
        for steps in (6, 7, 8):
            yield case(SINGLE, both, num_inference_steps=steps)
        yield case(SINGLE, {**both, "final_sigmas_type": "sigma_min"}, num_inference_steps=6)
        yield case(SINGLE, {**both, "final_sigmas_type": "sigma_min", "lower_order_final": True}, num_inference_steps=6)
        yield case(SINGLE, both, num_inference_steps=13, strength=0.6)
    for steps, order in itertools.product((1, 2, 3, 4, 5), (2, 3)):
        yield case(SINGLE, {"solver_order": order}, num_inference_steps=steps)
        yield case(SINGLE, {"solver_order": order, "final_sigmas_type": "sigma_min"}, num_inference_steps=steps)
    for flag in ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"):
        yield case(SINGLE, {flag: True, "solver_order": 3}, num_inference_steps=6)
        yield case(SINGLE, {flag: True, "final_sigmas_type": "sigma_min"}, num_inference_steps=6)
    yield case(SINGLE, {"use_karras_sigmas": True, "sigma_min": 0.1, "sigma_max": 10.0}, num_inference_steps=5)
    yield case(SINGLE, {"use_karras_sigmas": True, "beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1, "prediction_type": "v_prediction"},
               num_inference_steps=7)
    yield case(SINGLE, {"prediction_type": "v_prediction"})
    yield case(SINGLE, {"prediction_type": "sample"})
    yield case(SINGLE, timesteps=[999, 845, 730, 587, 443, 310, 193, 116, 53, 13])
    for strength in (0.3, 0.45, 0.75, 1.0):
        yield case(SINGLE, {"solver_order": 3}, num_inference_steps=12, strength=strength)
    for cut in (0.8, 0.55):
        yield case(SINGLE, num_inference_steps=10, denoising_start=cut)
        yield case(SINGLE, {"solver_order": 3}, num_inference_steps=10, denoising_end=cut)

    for spacing, steps in itertools.product(("leading", "linspace", "trailing"), (1, 2, 7)):
        yield case(SDE, {"timestep_spacing": spacing}, num_inference_steps=steps)
        yield case(DDPM, {"timestep_spacing": spacing}, num_inference_steps=steps)
        yield case(SA, {"timestep_spacing": spacing}, num_inference_steps=steps)
    for kind, flag in itertools.product((SDE, SA), ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas")):
        yield case(kind, {flag: True}, num_inference_steps=6)
    for kind in (SDE, DDPM, SA):
        yield case(kind, {"prediction_type": "v_prediction"}, num_inference_steps=6)
        for strength in (0.3, 0.75, 1.0):
            yield case(kind, num_inference_steps=9, strength=strength)
        for cut in (0.8, 0.55):
            yield case(kind, num_inference_steps=10, denoising_start=cut)
            yield case(kind, num_inference_steps=10, denoising_end=cut)
        yield case(kind, {"beta_schedule": "linear", "beta_start": 0.0001, "beta_end": 0.02}, num_inference_steps=4)
    yield case(SDE, num_inference_steps=20)
    for variance in ("fixed_small", "fixed_small_log", "fixed_large"):
        yield case(DDPM, {"variance_type": variance})
        yield case(DDPM, {"variance_type": variance, "steps_offset": 0}, num_inference_steps=4)
    yield case(DDPM, {"prediction_type": "sample"})
    yield case(DDPM, {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"}, num_inference_steps=5)
    yield case(DDPM, timesteps=[999, 700, 350, 20, 0])
    for predictor, corrector, lower in itertools.product((1, 2, 3), (1, 2, 3, 4), (True, False)):
        yield case(SA, {"predictor_order": predictor, "corrector_order": corrector, "lower_order_final": lower}, num_inference_steps=9)
    yield case(SA, {"predictor_order": 3, "corrector_order": 4, "use_karras_sigmas": True}, num_inference_steps=16, strength=0.6)
    yield case(SA, {"prediction_type": "sample"})


def k_case(name, config=None, **request):
    """A function of k-diffusion by our name, with a grid of GRIDS behind it or none."""
    return {**case("k-diffusion", config, **request), "name": name}


def k_cases():
    v = {"prediction_type": "v_prediction"}
    for name in ("dpmpp_2s_a", "ipndm"):
        for spacing, steps in itertools.product(("leading", "trailing"), (1, 2, 7)):
            yield k_case(name, {"timestep_spacing": spacing}, num_inference_steps=steps)
    for name in ("dpmpp_2s_a", "ipndm", "dpmpp_sde", "dpmpp_3m_sde"):
        for grid in ("karras", "simple"):
            yield k_case(f"{name}_{grid}")
            yield k_case(f"{name}_{grid}", v, num_inference_steps=5)
    yield k_case("dpmpp_3m_sde", {"timestep_spacing": "trailing"}, num_inference_steps=7)
    for name in ("euler", "euler_a", "heun", "dpm2", "dpm2_a", "dpmpp_2m", "dpmpp_2m_sde", "dpmpp_2m_sde_heun"):
        yield k_case(f"{name}_karras")
        yield k_case(f"{name}_exponential", v, num_inference_steps=6)
    for grid in GRIDS:
        for steps in (1, 2, 5, 10, 16):
            yield k_case(f"euler_{grid}", num_inference_steps=steps)
        yield k_case(f"dpmpp_2m_{grid}", num_inference_steps=7)
        yield k_case(f"dpmpp_sde_{grid}", num_inference_steps=4)
    yield k_case("euler_karras", {"sigma_min": 0.1, "sigma_max": 10.0}, num_inference_steps=5)


class Path:
    """A Brownian path in sigma, drawn piece by piece from a generator, as DPM++ SDE asks for it: the first part of a step,
    then the whole of it. In place of torchsde's tree, whose draws depend on the shape of the latents."""

    def __init__(self, draw):
        self.draw, self.begin = draw, None

    def __call__(self, sigma, sigma_next):
        a, b = float(sigma), float(sigma_next)
        noise = self.draw()
        if self.begin != a:
            self.begin, self.middle, self.first = a, b, noise
            return noise
        self.begin = None
        share = (a - self.middle) / (a - b)
        return math.sqrt(share) * self.first + math.sqrt(1 - share) * noise


def training_sigmas(config):
    alphas = diffusers.EulerDiscreteScheduler.from_config({**FILE, **config}).alphas_cumprod
    return numpy.array(((1 - alphas) / alphas) ** 0.5).astype(float)


def log_linear(table, t):
    return numpy.exp(numpy.interp(t, numpy.arange(len(table)), numpy.log(table)))


def timesteps_grid(rule):
    return lambda table, n, config: log_linear(table, rule(len(table), n))


def spread(rule):
    def sigmas(table, n, config):
        high, low = config.get("sigma_max", table[-1]), config.get("sigma_min", table[0])
        return rule(high, low, numpy.linspace(0, 1, n))
    return sigmas


def beta(high, low, u):
    import scipy.stats
    return low + (high - low) * scipy.stats.beta.ppf(1 - u, 0.6, 0.6)


def align_your_steps(table, n, config):
    points = [14.615, 6.315, 3.771, 2.181, 1.342, 0.862, 0.555, 0.380, 0.234, 0.113, 0.029]
    return log_linear(points, numpy.linspace(0, 10, n + 1))[:-1]


GRIDS = {
    "karras": spread(lambda high, low, u: (high ** (1 / 7) + u * (low ** (1 / 7) - high ** (1 / 7))) ** 7),
    "exponential": spread(lambda high, low, u: numpy.exp(math.log(high) + u * (math.log(low) - math.log(high)))),
    "beta": spread(beta),
    "kl_optimal": spread(lambda high, low, u: numpy.tan(u * math.atan(low) + (1 - u) * math.atan(high))),
    "normal": timesteps_grid(lambda count, n: numpy.linspace(count - 1, 0, n)),
    "sgm_uniform": timesteps_grid(lambda count, n: numpy.linspace(count - 1, 0, n + 1)[:-1]),
    "simple": timesteps_grid(lambda count, n: [count - (1 + int(i * (count / n))) for i in range(n)]),
    "turbo": timesteps_grid(lambda count, n: [round(i * (count / n)) - 1 for i in range(n, 0, -1)]),
    "ddim_uniform": timesteps_grid(lambda count, n: list(range(1, count, max(count // n, 1)))[::-1]),
    "align_your_steps": align_your_steps,
}
K_FUNCTIONS = {"euler": "euler", "euler_a": "euler_ancestral", "heun": "heun", "dpm2": "dpm_2", "dpm2_a": "dpm_2_ancestral",
               "dpmpp_2s_a": "dpmpp_2s_ancestral", "dpmpp_sde": "dpmpp_sde", "dpmpp_2m": "dpmpp_2m", "dpmpp_2m_sde": "dpmpp_2m_sde",
               "dpmpp_2m_sde_heun": "dpmpp_2m_sde", "dpmpp_3m_sde": "dpmpp_3m_sde"}
ALWAYS_DRAW = ("euler_a", "dpmpp_2m_sde", "dpmpp_2m_sde_heun", "dpmpp_3m_sde")  # latentd's, also where nothing comes of it
TWO_EVALUATIONS = ("heun", "dpm2", "dpm2_a", "dpmpp_2s_a", "dpmpp_sde")


def load_k_diffusion():
    """Its functions of sampling alone; the package imports networks and metrics."""
    folder = importlib.util.find_spec("k_diffusion").submodule_search_locations[0]
    package, utils = ModuleType("k_diffusion"), ModuleType("k_diffusion.utils")
    utils.append_dims = lambda x, dims: x[(...,) + (None,) * (dims - x.ndim)]
    package.utils = utils
    sys.modules.update({"k_diffusion": package, "k_diffusion.utils": utils})
    spec = importlib.util.spec_from_file_location("k_diffusion.sampling", f"{folder}/sampling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ipndm(model, x, sigmas, **_):
    past = []
    for now, then in zip(sigmas[:-1], sigmas[1:]):
        d = (x - model(x, now[None])) / now
        weights = [[1], [3 / 2, -1 / 2], [23 / 12, -16 / 12, 5 / 12], [55 / 24, -59 / 24, 37 / 24, -9 / 24]]
        own = weights[0 if then == 0 else min(len(past), 3)]
        x = x + (then - now) * sum(w * e for w, e in zip(own, [d] + past[::-1]))
        past.append(d)
    return x


def split_name(name):
    for grid in GRIDS:
        if name.endswith("_" + grid):
            return name[:-len(grid) - 1], grid
    return name, None


def k_sigmas(name, grid, config, steps):
    """The noise levels, the scale of the first noise, and whether latents are scaled to signal² + noise² = 1."""
    scaled = name.startswith("dpmpp_2m") or name.startswith("dpmpp_3m")
    if grid is not None:
        sigmas = [*GRIDS[grid](training_sigmas(config), steps, config), 0.0]
        return sigmas, 1.0 if scaled else sigmas[0], scaled
    kind = DPM if scaled else EULER
    scheduler = getattr(diffusers, kind).from_config({**FILE, **config})
    scheduler.set_timesteps(steps)
    return scheduler.sigmas.tolist(), float(scheduler.init_noise_sigma), scaled


def run_k(case, functions):
    name, grid = split_name(case["name"])
    config = case["config"]
    sigmas, first, scaled = k_sigmas(name, grid, config, case["request"]["num_inference_steps"])
    sigmas = torch.tensor([float(numpy.float32(s)) for s in sigmas], dtype=torch.float64)
    logs = numpy.log(training_sigmas(config))
    generator = torch.Generator("cpu").manual_seed(5)
    image, noise = (torch.randn(1, 2, generator=generator) for _ in range(2))
    evaluations, seen_x = [], []

    def model(x, sigma, **_):
        sigma = float(sigma[0])
        timestep = float(numpy.interp(math.log(sigma), logs, numpy.arange(len(logs))))
        seen = x / math.sqrt(sigma * sigma + 1)
        output = 0.6 * seen + torch.sin(timestep / 150 + torch.arange(2.0))
        seen_x.append(seen if scaled else x)
        evaluations.append(dict(timestep=timestep, step=0, input=numbers(seen), output=numbers(output),
                                noise=[0.0, 0.0] if name in ALWAYS_DRAW else None))
        if config.get("prediction_type") == "v_prediction":
            return x / (sigma * sigma + 1) - output * sigma / math.sqrt(sigma * sigma + 1)
        return x - sigma * output

    def draw():
        drawn = torch.randn(1, 2, generator=generator)
        evaluations[-1]["noise"] = numbers(drawn)
        return drawn.double()

    path = Path(draw)
    options = {} if name in ("euler", "heun", "dpm2", "dpmpp_2m") else {
        "noise_sampler": path if name == "dpmpp_sde" else lambda *_: draw()}
    if name.startswith("dpmpp_2m_sde"):
        options["solver_type"] = "heun" if name.endswith("heun") else "midpoint"
    function = ipndm if name == "ipndm" else getattr(functions, "sample_" + K_FUNCTIONS[name])
    start = noise.double() * first
    begin = start * math.sqrt(float(sigmas[0]) ** 2 + 1) if scaled else start
    end = function(model, begin, sigmas, **({} if name == "ipndm" else {"disable": True, **options}))
    steps = progress_bar(len(evaluations), case["request"]["num_inference_steps"], 2 if name in TWO_EVALUATIONS else 1)
    for evaluation, step, x in zip(evaluations, steps, seen_x[1:] + [end]):
        evaluation.update(step=step, x=numbers(x))
    return {**case, "result": dict(initial_noise_scale=first, image=numbers(image), noise=numbers(noise), start=numbers(start),
                                   evaluations=evaluations)}


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
    count = len(timesteps)
    if "denoising_end" in request:
        cutoff = int(round(train - request["denoising_end"] * train))
        timesteps = timesteps[:len([t for t in timesteps if t >= cutoff])]
    return timesteps, progress_bar(count, steps, scheduler.order)[:len(timesteps)]


def progress_bar(count, steps, order):
    """How far it is at each of so many evaluations."""
    warmup = max(count - steps * order, 0)
    moves = [i + 1 > warmup and (i + 1) % order == 0 for i in range(count)]
    return [sum(moves[:i]) for i in range(count)]


def numbers(tensor):
    """As short as float32 can be written."""
    return [float(str(numpy.float32(v))) for v in tensor.flatten().tolist()]


def run(case):
    request = case["request"]
    scheduler = getattr(diffusers, case["class"]).from_config({**FILE, **case["config"]})
    timesteps, progress = window(scheduler, request)
    if case["class"] == SA:  # its coefficients cancel badly in float32
        scheduler.sigmas = scheduler.sigmas.double()
    generator = torch.Generator("cpu").manual_seed(5)
    image, noise = (torch.randn(1, 2, generator=generator) for _ in range(2))
    result = {"initial_noise_scale": float(scheduler.init_noise_sigma)}
    if "strength" in request:
        x = scheduler.add_noise(image, noise, timesteps[:1])
    else:
        x = noise * scheduler.init_noise_sigma
    result.update(image=numbers(image), noise=numbers(noise), start=numbers(x), evaluations=[])
    if case["class"] == SDE:
        scheduler.noise_sampler = Path(lambda: torch.randn(1, 2, generator=generator))
    more = {"eta": request.get("eta", 0.0)} if case["class"] in (DDIM, TCD) else {}  # as the pipelines pass it
    for t, step in zip(timesteps, progress):
        seen = scheduler.scale_model_input(x, t)
        output = 0.6 * seen + torch.sin(float(t) / 150 + torch.arange(2.0))
        before = torch.Generator("cpu").set_state(generator.get_state())
        random = {} if case["class"] in NO_GENERATOR else {"generator": generator}
        x = scheduler.step(output, t, x, **more, **({} if case["class"] in (DPM, SINGLE) and "sde" not in scheduler.config.algorithm_type else random)).prev_sample
        drawn = not torch.equal(before.get_state(), generator.get_state())
        result["evaluations"].append(dict(timestep=float(t), step=step, input=numbers(seen), output=numbers(output),
                                          noise=numbers(torch.randn(1, 2, generator=before)) if drawn else None, x=numbers(x)))
    return {**case, "result": result}


if __name__ == "__main__":
    k_diffusion = load_k_diffusion()
    rows = [json.dumps(run_k(c, k_diffusion) if c["class"] == "k-diffusion" else run(c)) for c in cases()]
    sys.stdout.write('{"file": ' + json.dumps(FILE) + ',\n"cases": [\n' + ",\n".join(rows) + "\n]}\n")
