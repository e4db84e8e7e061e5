"""Parts shared by the benches that try one server: the flags that choose it, and the promises that it keeps or misses."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_server_flags(parser):
    parser.add_argument("--latentd", default=ROOT / "build/server/latentd")
    parser.add_argument("--latent", default=ROOT / "build/client/latent")
    parser.add_argument("--checkpoint", default=ROOT / "deploy/demo-model")
    parser.add_argument("--backend", default="cpu", help="latentd's")


def tell(promises):
    """Prints each (promise, true if it holds); true if all hold."""
    for promise, holds in promises:
        print(f"{'holds ' if holds else 'MISSED'}  {promise}", flush=True)
    return all(holds for _, holds in promises)
