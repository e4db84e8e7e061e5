"""Calls of a stock client, in a Python that has it: foreign_calls.py CLIENT URL. Prints what came as JSON."""

import base64
import io
import json
import sys

import png

PROMPT = "a red circle on a blue background"
IMAGE = png.write(64, 64, bytes(range(192)))
FEW = {"num_inference_steps": 4, "seed": 7}


def texts_of(answer):
    return [image.b64_json for image in answer.data]


def openai(url):
    import openai as package

    with package.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        model = next(iter(client.models.list())).id
        came = {"version": package.__version__,
                "drawn": texts_of(client.images.generate(model=model, prompt=PROMPT, n=2, size="64x64", extra_body=FEW)),
                "edited": texts_of(client.images.edit(image=IMAGE, prompt=PROMPT, size="64x64", extra_body=FEW))}
        events = list(client.images.generate(prompt=PROMPT, size="64x64", stream=True, partial_images=1, extra_body=FEW))
        came["events"] = [event.type for event in events]
        came["streamed"] = events[-1].b64_json
        try:
            client.images.generate(prompt=PROMPT, size="60x64")
        except package.BadRequestError as error:
            came["refused"] = [error.param, bool(error.request_id)]
    return came


def huggingface_hub(url):
    import huggingface_hub as package
    import huggingface_hub.errors

    client = package.InferenceClient(base_url=url + "/hf")
    size = {"width": 64, "height": 64}
    drawn = client.text_to_image(PROMPT, **size, **FEW)
    edited = client.image_to_image(IMAGE, prompt=PROMPT, strength=0.6, target_size=size, **FEW)
    came = {"version": package.__version__,
            **{name: base64.b64encode(image.tobytes()).decode() for name, image in (("drawn", drawn), ("edited", edited))}}
    try:
        client.text_to_image(PROMPT, extra_body={"no_such_field": 1})
    except package.errors.HfHubHTTPError as error:
        came["refused"] = str(error)
    return came


def litellm(url):
    import importlib.metadata

    import litellm as package

    where = {"model": "openai/gpt-image-1", "api_base": url + "/v1", "api_key": "none"}
    came = {"version": importlib.metadata.version("litellm"),
            "drawn": texts_of(package.image_generation(prompt=PROMPT, n=2, size="64x64", **FEW, **where)),
            "edited": texts_of(package.image_edit(image=io.BytesIO(IMAGE), prompt=PROMPT, size="64x64", extra_body=FEW, **where))}
    try:
        package.image_generation(prompt=PROMPT, size="60x64", **where)
    except package.BadRequestError as error:
        came["refused"] = str(error)
    return came


def langchain_community(url):
    import importlib.metadata
    import warnings

    warnings.simplefilter("ignore")  # its own, that it will not be kept up
    from langchain_community.utilities.dalle_image_generator import DallEAPIWrapper

    drawer = DallEAPIWrapper(base_url=url + "/v1", api_key="none", model="dall-e-3", size="64x64")
    return {"version": importlib.metadata.version("langchain-community"), "url": drawer.run(PROMPT)}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
