"""Adds latentd's interface, as its protos describe it, to a wheel of latent-client.

The build makes four files of the protos, so that none of them is kept by hand or in the repository: the descriptors that the client
loads (_interface.bin), the keywords of a request (_parameters.pyi) and the messages (messages.pyi, video_messages.pyi) for type
checkers. It takes the protoc of the machine, or without a sound one the protoc that pip fetches with grpcio-tools.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, List

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = ("latent/v1/image_generation.proto", "latent/v1/video_generation.proto", "google/rpc/status.proto",
          "google/rpc/error_details.proto", "grpc/health/v1/health.proto")
PACKAGE = "latent_client"


def roots() -> Dict[str, pathlib.Path]:
    """The folders that the protos' names are relative to: the repository's, or those that a source distribution has of them."""
    repository = HERE.parents[1]
    if (repository / "proto" / PROTOS[0]).is_file():
        return {"latent": repository / "proto", "google": repository / "third_party/googleapis",
                "grpc": repository / "third_party/grpc-proto"}
    return dict.fromkeys(("latent", "google", "grpc"), HERE / "proto")


def compilers() -> List[List[str]]:
    """The commands that may compile protos here, the best first."""
    found = shutil.which("protoc")
    own = [sys.executable, "-m", "grpc_tools.protoc"]
    try:
        import grpc_tools
        own.append(f"-I{pathlib.Path(grpc_tools.__file__).parent / '_proto'}")
    except ImportError:
        own = []
    return [command for command in ([found] if found else [], own) if command]


def compile_protos(command: List[str], folder: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    """Leaves the descriptors, with comments, and the stubs of the messages in `folder`."""
    imports = sorted({f"-I{root}" for root in roots().values()})
    outputs = [f"--descriptor_set_out={folder / 'descriptors'}", "--include_imports", "--include_source_info", f"--pyi_out={folder}"]
    return subprocess.run([*command, *imports, *outputs, *PROTOS], capture_output=True, text=True)


class InterfaceBuildHook(BuildHookInterface):  # type: ignore[misc]
    """hatchling's name for it is "custom"."""

    def dependencies(self) -> List[str]:
        """grpcio-tools where the machine has no protoc that compiles the protos."""
        with tempfile.TemporaryDirectory() as folder:
            found = shutil.which("protoc")
            sound = found is not None and compile_protos([found], pathlib.Path(folder)).returncode == 0
        return [] if sound else ["grpcio-tools"]

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        if self.target_name == "sdist":
            for name, root in roots().items():
                build_data["force_include"][str(root / name)] = f"proto/{name}"
            return
        self._folder = tempfile.mkdtemp(prefix="latent-client-")
        files = write_interface(pathlib.Path(self._folder))
        for file in files:
            if version == "editable":  # is imported from the sources
                shutil.copyfile(file, HERE / "src" / PACKAGE / file.name)
            else:
                build_data["force_include"][str(file)] = f"{PACKAGE}/{file.name}"

    def finalize(self, version: str, build_data: Dict[str, Any], artifact_path: str) -> None:
        if self.target_name != "sdist":
            shutil.rmtree(self._folder, ignore_errors=True)


def write_interface(folder: pathlib.Path) -> List[pathlib.Path]:
    """Makes the four files in `folder`. RuntimeError where no compiler takes the protos: it has the compiler's words."""
    said = ["there is no protoc; install it, or grpcio-tools"]
    for command in compilers():
        done = compile_protos(command, folder)
        if done.returncode == 0:
            sys.path.insert(0, str(HERE))
            import interface_stubs
            return interface_stubs.write(folder / "descriptors", folder)
        said.append(done.stderr)
    raise RuntimeError("the protos do not compile: " + "\n".join(said))
