#!/usr/bin/env python3
"""Checks the source tree against the rules of docs/architecture.md.

Usage: check_tree.py CHECK [--root DIR]    with CHECK one of those that --help lists.
Prints one line a violation, and exits with 1 if there is any. The table of who may include whom is in
docs/architecture.md alone; this file only knows which header belongs to which library.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

SOURCE_FOLDERS = ("core", "server", "client", "tests")
SOURCE_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

# A library by how the names of its headers begin; all layers may use absl and the standard library.
LIBRARY_HEADERS = {
    "libtorch": ("ATen/", "c10/", "torch/", "caffe2/"),
    "onednn": ("dnnl", "oneapi/dnnl/"),
    "grpc": ("grpc/", "grpcpp/", "grpc++/"),
    "protobuf": ("google/",),
    "json": ("nlohmann/",),
    "spdlog": ("spdlog/", "fmt/"),
    "prometheus": ("prometheus/", "CivetServer.h", "civetweb.h"),
    "openssl": ("openssl/",),
    "boost": ("boost/",),
    "png": ("png.h",),
    "jpeg": ("jpeglib.h", "jerror.h", "turbojpeg.h"),
    "webp": ("webp/",),
    "vpx": ("vpx/",),
    "deflate": ("libdeflate.h", "zlib.h"),
    "utf8proc": ("utf8proc.h",),
    "xxhash": ("xxhash.h",),
    "cuda": ("cuda", "cudnn", "cublas", "nvrtc", "cutlass/", "cute/"),
    "test": ("gtest/", "gmock/", "benchmark/"),
}
# Headers of the libraries that every layer may use, and of the system where they have a folder.
FREE_HEADERS = ("absl/", "sys/", "netinet/", "arpa/", "asm/", "linux/")
WHOLE_LIBTORCH = {"torch/torch.h", "torch/all.h", "torch/extension.h", "ATen/ATen.h"}

# The one file in which messages of clients become bytes, and protobuf's own ways to do so.
MESSAGE_WRITER = "server/calls/serialize.cc"
MESSAGE_TO_BYTES = re.compile(r"(?:\.|->)((?:Serialize(?:Partial)?(?:As|To|With)|Append(?:Partial)?To|PackFrom)\w*)\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


@dataclasses.dataclass(frozen=True)
class Layer:
    """One row of the table: a directory, what of the tree it may include, and which libraries."""

    directory: str
    level: int
    includes: frozenset
    libraries: frozenset


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    header: str
    quoted: bool


def read_layers(root):
    """The rows of the table between the two marks of docs/architecture.md, by directory."""
    text = (root / "docs/architecture.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- layers.*?-->\n(.*?)<!-- /layers -->", text, re.DOTALL)
    if table is None:
        sys.exit("docs/architecture.md has no table between <!-- layers --> and <!-- /layers -->")
    layers = {}
    for row in table.group(1).strip().splitlines()[2:]:
        directory, level, includes, libraries = (cell.strip() for cell in row.strip("|").split("|"))
        layers[directory] = Layer(
            directory,
            int(level),
            frozenset(tree_path(name) for name in split_names(includes)),
            frozenset(split_names(libraries)),
        )
    return layers


def split_names(cell):
    return [name.strip() for name in cell.split(",") if name.strip()]


def tree_path(name):
    """`base` in the table means the folder core/base; `proto` the generated interface; server/ is below the root."""
    return name if name == "proto" or name.startswith("server/") else f"core/{name}"


def source_files(root):
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES:
                yield path.relative_to(root)


def read_includes(root):
    """Every source file's includes: {path below root: [Include]}."""
    result = {}
    for path in source_files(root):
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        matches = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, 1))
        result[path.as_posix()] = [Include(n, m.group(2), m.group(1) == '"') for n, m in matches if m]
    return result


def library_of(header):
    """The library that a header belongs to, or None for the tree's own, Abseil's and the system's."""
    for library, beginnings in LIBRARY_HEADERS.items():
        if header.startswith(beginnings):
            return library
    return None


def is_free(include):
    """True if every directory may include it: Abseil, the standard library and the system."""
    if library_of(include.header) is not None:
        return False
    return include.header.startswith(FREE_HEADERS) or not (include.quoted or "/" in include.header)


def is_generated(header):
    return header.endswith(".pb.h")


def layer_of(path, layers):
    """The deepest directory of the table that holds `path`, or None."""
    for parent in pathlib.PurePosixPath(path).parents:
        if parent.as_posix() in layers:
            return layers[parent.as_posix()]
    return None


def may_include(layer, header, layers):
    if is_generated(header):
        return "proto" in layer.includes
    library = library_of(header)
    if library is not None:
        return library in layer.libraries
    target = layer_of(header, layers)
    if target is None:
        return False
    return target is layer or target.directory in layer.includes or header in layer.includes


def check_layers(root):
    """Each file includes only what the row of its directory names."""
    layers = read_layers(root)
    for path, includes in read_includes(root).items():
        layer = layer_of(path, layers)
        if layer is None:
            if not path.startswith("tests/"):
                yield f"{path}: its directory has no row in docs/architecture.md"
            continue
        for include in includes:
            if not is_free(include) and not may_include(layer, include.header, layers):
                yield f"{path}:{include.line}: {layer.directory} may not include {include.header}"


def check_table(root):
    """A directory may include only directories of its own layer or below, and the table has no cycle."""
    layers = read_layers(root)
    edges = {name: [] for name in layers}
    for layer in layers.values():
        for name in sorted(layer.includes - {"proto"}):
            target = layers.get(name) or layer_of(name, layers)
            if target is None:
                yield f"docs/architecture.md: {layer.directory} may include {name}, which has no row"
            elif target.level > layer.level:
                yield f"docs/architecture.md: {layer.directory} may include {name} of a higher layer"
            else:
                edges[layer.directory].append(target.directory)
    yield from (f"docs/architecture.md: cycle {' -> '.join(cycle)}" for cycle in find_cycles(edges))


def check_cmake(root):
    """Each latentd_library() links only what the row of its directory names."""
    layers = read_layers(root)
    for path in sorted(path for folder in ("core", "server") for path in (root / folder).rglob("CMakeLists.txt")):
        directory = path.parent.relative_to(root).as_posix()
        call = re.search(r"latentd_library\(([^)]*)\)", path.read_text(encoding="utf-8"))
        if call is None or directory not in layers:
            continue
        _, *linked = re.split(r"\s(?:ROOMS|LINK)\s", call.group(1))[0].split()
        # A directory links each one of which it may include a header.
        libraries = layers[directory].includes - {"proto"}
        allowed = {layer_of(f"{name}/any.h", layers).directory for name in libraries} | layers[directory].includes
        for name in linked:
            folder = tree_path(re.sub(r"^(adapters|backends|device|image|pipeline|server|weights)_", r"\1/", name))
            if folder not in allowed:
                yield f"{directory}/CMakeLists.txt: {directory} may not link {folder}"


def check_cycles(root):
    """No include cycle between files, nor between the directories of core/, server/ and client/."""
    includes = read_includes(root)
    files = {path: [i.header for i in found if i.header in includes] for path, found in includes.items()}
    yield from (f"include cycle: {' -> '.join(cycle)}" for cycle in find_cycles(files))
    folders = collections.defaultdict(set)
    for path, headers in files.items():
        if not path.startswith("tests/"):
            own = pathlib.PurePosixPath(path).parent.as_posix()
            folders[own] |= {pathlib.PurePosixPath(h).parent.as_posix() for h in headers} - {own}
    yield from (f"directory cycle: {' -> '.join(cycle)}" for cycle in find_cycles(folders))


def find_cycles(edges):
    """The cycles that a depth-first search of {node: neighbours} meets, each as a list of nodes."""
    done, path, cycles = set(), [], []

    def visit(node):
        if node in path:
            cycles.append(path[path.index(node) :] + [node])
        elif node not in done:
            path.append(node)
            for neighbour in sorted(edges.get(node, ())):
                visit(neighbour)
            done.add(path.pop())

    for node in sorted(edges):
        visit(node)
    return cycles


def check_libraries(root):
    """No file reaches ATen and protobuf, none includes all of LibTorch, and no header includes an operator."""
    includes = read_includes(root)
    for path, found in includes.items():
        for include in found:
            if include.header in WHOLE_LIBTORCH:
                yield f"{path}:{include.line}: include the headers of single operators instead of {include.header}"
            if path.endswith(".h") and include.header.startswith("ATen/ops/"):
                yield f"{path}:{include.line}: {include.header} belongs in a .cc file"
        libraries = reached_libraries(path, includes)
        if "libtorch" in libraries and libraries & {"protobuf", "grpc"}:
            yield f"{path}: reaches both LibTorch ({libraries_path('libtorch', path, includes)}) and protobuf"


def reached_files(path, includes):
    """`path` and the files of the tree that it includes, directly or not."""
    reached, waiting = {path}, [path]
    while waiting:
        for include in includes[waiting.pop()]:
            if include.header in includes and include.header not in reached:
                reached.add(include.header)
                waiting.append(include.header)
    return reached


def reached_libraries(path, includes):
    headers = [i.header for file in reached_files(path, includes) for i in includes[file]]
    return {"protobuf" if is_generated(header) else library_of(header) for header in headers}


def libraries_path(library, path, includes):
    """The path of includes from `path` to a file that includes `library`."""
    holders = (f for f in sorted(reached_files(path, includes)) if any(library_of(i.header) == library for i in includes[f]))
    return f"through {next(holders)}"


def check_messages(root):
    """Messages become bytes in one file, which makes their text UTF-8."""
    for path in source_files(root):
        if not path.as_posix().startswith("server/") or path.as_posix() == MESSAGE_WRITER:
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if found := MESSAGE_TO_BYTES.search(line):
                yield f"{path}:{number}: {found.group(1)} belongs in {MESSAGE_WRITER}, whose functions make text UTF-8"


def check_sizes(root):
    """No file and no function is longer than the budget."""
    for path in source_files(root):
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_FILE_LINES:
            yield f"{path}: {len(lines)} lines, of at most {MAX_FILE_LINES}"
        for first, count in function_lengths(lines):
            if count > MAX_FUNCTION_LINES:
                yield f"{path}:{first}: a function of {count} lines, of at most {MAX_FUNCTION_LINES}"


def function_lengths(lines):
    """(first line, lines of the body) of each block that clang-format puts at the left margin, but for types.

    Namespaces are not indented and end in a comment (`}  // namespace`), so a block that ends in a bare `}` at the
    margin is a function, and one that ends in `};` a type or a table.
    """
    first = None
    for number, line in enumerate(lines, 1):
        if line.endswith("{") and not line.startswith(("namespace", "extern")) and first is None:
            if not line.startswith(" ") or is_continued_signature(lines, number):
                first = number
        elif line.startswith("}"):
            if line == "}" and first is not None:
                yield first, number - first - 1
            first = None


def is_continued_signature(lines, number):
    """True if line `number` ends a declaration that began at the margin, on an earlier line."""
    for line in reversed(lines[: number - 1]):
        if not line.startswith(" "):
            return line.endswith(("(", ",")) and not line.startswith(("}", "#", "//"))
        if line.rstrip().endswith((";", "{", "}")):
            return False
    return False


CHECKS = {
    "layers": check_layers,
    "table": check_table,
    "cmake": check_cmake,
    "cycles": check_cycles,
    "libraries": check_libraries,
    "messages": check_messages,
    "sizes": check_sizes,
}


def main():
    catalogue = "\n".join(f"  {name:10} {check.__doc__.splitlines()[0]}" for name, check in CHECKS.items())
    parser = argparse.ArgumentParser(epilog=f"checks:\n{catalogue}", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    violations = list(CHECKS[arguments.check](arguments.root))
    print(*violations, sep="\n", end="\n" if violations else "")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
