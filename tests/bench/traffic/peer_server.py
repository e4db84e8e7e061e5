"""A server as one would write it otherwise: diffusers behind gRPC, and a queue with one worker. Prints its address once it serves.

It answers latent.v1.ImageGeneration/GenerateStream; what waits, and what is drawn, ends when its client leaves or its deadline
passes. Run by tests/bench/load.
"""
import argparse
import asyncio
import concurrent.futures
import io
import pathlib
import sys
import threading

import torch
from diffusers import StableDiffusionXLPipeline

CHUNK = 1 << 20
STAGE_STEPS = 3


class ClientLeft(Exception):
    pass


class Pipeline:
    """diffusers' pipeline, for one thread at a time."""

    def __init__(self, options):
        dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[options.precision]
        self._pipe = StableDiffusionXLPipeline.from_pretrained(options.checkpoint, torch_dtype=dtype, add_watermarker=False)
        self._pipe.to(options.device)
        self._pipe.set_progress_bar_config(disable=True)

    def draw(self, request, left, tell):
        """A PNG; `tell` gets the fields of each event."""
        def on_step(pipe, step, timestep, values):
            if left.is_set():
                raise ClientLeft
            tell(progress={"stage": STAGE_STEPS, "step": step + 1, "total_steps": request.num_inference_steps})
            return {}

        if left.is_set():
            raise ClientLeft
        tell(started={})
        image = self._pipe(request.prompt, width=request.width, height=request.height, num_inference_steps=request.num_inference_steps,
                           guidance_scale=request.guidance_scale, generator=torch.Generator("cpu").manual_seed(request.seed),
                           callback_on_step_end=on_step).images[0]
        png = io.BytesIO()
        image.save(png, "PNG")
        for offset in range(0, png.tell(), CHUNK):
            tell(image_chunk={"offset": offset, "total_bytes": png.tell(), "data": png.getvalue()[offset:offset + CHUNK]})
        tell(completed={})


def service(pipeline, request_type, event_type):
    worker = concurrent.futures.ThreadPoolExecutor(1)  # and its queue

    async def generate(request, context):
        loop, events, left = asyncio.get_running_loop(), asyncio.Queue(), threading.Event()

        def tell(**fields):
            loop.call_soon_threadsafe(events.put_nowait, event_type(**fields))

        def draw():
            try:
                pipeline.draw(request, left, tell)
            finally:
                loop.call_soon_threadsafe(events.put_nowait, None)

        drawn = loop.run_in_executor(worker, draw)
        try:
            while (event := await events.get()) is not None:
                yield event
            await drawn
        finally:
            left.set()

    method = grpc.unary_stream_rpc_method_handler(generate, request_deserializer=request_type.FromString,
                                                  response_serializer=event_type.SerializeToString)
    return grpc.method_handlers_generic_handler("latent.v1.ImageGeneration", {"GenerateStream": method})


async def serve(options):
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((service(Pipeline(options), *messages.request_and_event(options.descriptors.read_bytes())),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True, help="a model in the diffusers layout")
    parser.add_argument("--descriptors", required=True, type=pathlib.Path, help="latent.v1 as a FileDescriptorSet")
    parser.add_argument("--packages", required=True, help="a folder with grpc and protobuf, where this Python has none")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    sys.path.append(options.packages)
    import grpc
    import messages
    asyncio.run(serve(options))
