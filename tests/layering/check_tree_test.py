#!/usr/bin/env python3
"""Shows that check_tree.py finds each kind of violation, in small trees made for the purpose."""

import pathlib
import tempfile
import unittest

import check_tree

TABLE = """
<!-- layers -->

| directory | layer | may include | libraries |
|---|---|---|---|
| core/base | 0 | | |
| core/graph | 1 | base | |
| core/backends | 2 | base, graph | |
| core/backends/cpu | 2 | base, graph, backends | libtorch |
| core/compiler | 3 | backends/backend.h | |
| core/engine | 4 | compiler, graph | |
| server/calls | 5 | engine, proto | protobuf |
| server | 5 | server/calls, engine, proto | protobuf |

<!-- /layers -->
"""


class CheckTreeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("docs/architecture.md", TABLE)
        for header in ("core/base/clock", "core/graph/graph", "core/backends/backend", "core/backends/ports", "core/engine/engine"):
            self.write(f"{header}.h", "#include <string>\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def violations(self, check):
        return list(check_tree.CHECKS[check](self.root))

    def expect_one(self, check, beginning):
        found = self.violations(check)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(beginning), found)

    def test_a_tree_that_keeps_the_rules_has_no_violation(self):
        self.write("core/compiler/compiler.cc", '#include "absl/status/status.h"\n#include "core/backends/backend.h"\n')
        self.write("core/backends/cpu/conv.cc", '#include <ATen/ops/conv2d.h>\n#include "core/backends/ports.h"\n')
        self.write("server/service.cc", '#include <google/protobuf/message.h>\n#include "latent/v1/api.pb.h"\n#include "core/engine/engine.h"\n')
        for check in check_tree.CHECKS:
            self.assertEqual(self.violations(check), [], check)

    def test_including_a_higher_directory_is_found(self):
        self.write("core/base/clock.h", '#include "core/graph/graph.h"\n')
        self.expect_one("layers", "core/base/clock.h:1: core/base may not include core/graph/graph.h")

    def test_sources_of_kernels_are_read_too(self):
        self.write("core/graph/kernel.cu", '#include <cuda_runtime.h>\n#include "core/graph/kernel.cuh"\n')
        self.write("core/graph/kernel.cuh", '#include "core/engine/engine.h"\n')
        self.assertEqual(
            self.violations("layers"),
            [
                "core/graph/kernel.cu:1: core/graph may not include cuda_runtime.h",
                "core/graph/kernel.cuh:1: core/graph may not include core/engine/engine.h",
            ],
        )

    def test_a_row_that_names_one_header_allows_that_header_only(self):
        self.write("core/compiler/compiler.cc", '#include "core/backends/ports.h"\n')
        self.expect_one("layers", "core/compiler/compiler.cc:1")

    def test_a_directory_does_not_stand_for_those_below_it(self):
        self.write("core/backends/cpu/conv.h", "\n")
        self.write("core/backends/load.cc", '#include "core/backends/cpu/conv.h"\n')
        self.expect_one("layers", "core/backends/load.cc:1")

    def test_a_library_of_another_row_is_found(self):
        self.write("core/graph/graph.h", "#include <google/protobuf/message.h>\n")
        self.expect_one("layers", "core/graph/graph.h:1")

    def test_a_generated_header_counts_as_protobuf(self):
        self.write("core/engine/engine.h", '#include "latent/v1/api.pb.h"\n')
        self.expect_one("layers", "core/engine/engine.h:1")

    def test_a_directory_without_a_row_is_found(self):
        self.write("core/misc/misc.h", "\n")
        self.expect_one("layers", "core/misc/misc.h")

    def test_a_row_that_names_a_higher_layer_is_found(self):
        self.write("docs/architecture.md", TABLE.replace("| core/base | 0 | |", "| core/base | 0 | graph |"))
        self.assertIn("docs/architecture.md: core/base may include core/graph of a higher layer", self.violations("table"))

    def test_linking_what_the_row_does_not_name_is_found(self):
        self.write("core/base/CMakeLists.txt", "latentd_library(base graph LINK absl::status)\n")
        self.expect_one("cmake", "core/base/CMakeLists.txt")

    def test_a_library_of_the_server_links_what_its_row_names(self):
        self.write("server/calls/CMakeLists.txt", "latentd_library(server_calls proto engine)\n")
        self.assertEqual(self.violations("cmake"), [])
        self.write("server/calls/CMakeLists.txt", "latentd_library(server_calls proto base)\n")
        self.expect_one("cmake", "server/calls/CMakeLists.txt: server/calls may not link core/base")

    def test_a_directory_of_the_server_does_not_include_what_is_built_on_it(self):
        self.write("server/serve.h", "\n")
        self.write("server/calls/call.h", '#include "server/serve.h"\n')
        self.expect_one("layers", "server/calls/call.h:1: server/calls may not include server/serve.h")

    def test_a_cycle_of_files_is_found(self):
        self.write("core/graph/a.h", '#include "core/graph/b.h"\n')
        self.write("core/graph/b.h", '#include "core/graph/a.h"\n')
        self.expect_one("cycles", "include cycle: core/graph/a.h -> core/graph/b.h -> core/graph/a.h")

    def test_a_cycle_of_directories_is_found(self):
        self.write("core/graph/a.h", '#include "core/base/clock.h"\n')
        self.write("core/base/b.h", '#include "core/graph/graph.h"\n')
        self.expect_one("cycles", "directory cycle: core/base -> core/graph -> core/base")

    def test_reaching_libtorch_and_protobuf_is_found(self):
        self.write("core/engine/engine.h", "#include <ATen/core/TensorBody.h>\n")
        self.write("server/service.cc", '#include "core/engine/engine.h"\n#include "latent/v1/api.pb.h"\n')
        self.expect_one("libraries", "server/service.cc: reaches both LibTorch (through core/engine/engine.h) and protobuf")

    def test_all_of_libtorch_is_found(self):
        self.write("tests/core/one_test.cc", "#include <torch/torch.h>\n")
        self.expect_one("libraries", "tests/core/one_test.cc:1")

    def test_an_operator_in_a_header_is_found(self):
        self.write("core/backends/cpu/conv.h", "#include <ATen/ops/conv2d.h>\n")
        self.expect_one("libraries", "core/backends/cpu/conv.h:1")

    def test_a_message_that_becomes_bytes_by_itself_is_found(self):
        self.write("server/calls/serialize.cc", "message.SerializeAsString();\n")
        self.write("tests/calls_test.cc", "message.SerializeAsString();\n")
        self.assertEqual(self.violations("messages"), [])
        for call in ("message.SerializeAsString()", "event->SerializePartialToString(&bytes)", "any.PackFrom(detail)",
                     "message.AppendToString(&bytes)"):
            self.write("server/calls/call.cc", f"\n  {call};\n")
            self.expect_one("messages", "server/calls/call.cc:2: ")

    def test_a_long_file_is_found(self):
        self.write("core/base/long.h", "\n" * 601)
        self.expect_one("sizes", "core/base/long.h: 601 lines")

    def test_a_long_function_is_found_wherever_its_signature_ends(self):
        body = "  Step();\n" * 61
        self.write("core/base/one.cc", "namespace latentd {\n\nvoid One() {\n" + body + "}\n\n}  // namespace latentd\n")
        self.expect_one("sizes", "core/base/one.cc:3: a function of 61 lines")
        self.write("core/base/one.cc", "void One(int first,\n         int second) {\n" + body + "}\n")
        self.expect_one("sizes", "core/base/one.cc:2: a function of 61 lines")

    def test_a_long_table_is_not_a_function(self):
        self.write("core/base/table.cc", "const int kTable[] = {\n" + "    1,\n" * 90 + "};\n")
        self.assertEqual(self.violations("sizes"), [])


if __name__ == "__main__":
    unittest.main()
