# cmake -DOUTPUT=FILE -DCORE=DIRECTORY -P SourcesDigest.cmake
# A header with a digest for each backend below CORE, of the sources that decide what its artifacts hold and of nothing else:
# an edit in one backend leaves what the others compiled in the cache.

# digest_of(VARIABLE GLOB...): of all files that match, in order of their names.
function(digest_of variable)
  file(GLOB_RECURSE sources ${ARGN})
  set(all "")
  foreach(source ${sources})
    file(SHA256 ${source} digest)
    string(APPEND all ${digest})
  endforeach()
  string(SHA256 all "${all}")
  set(${variable} ${all} PARENT_SCOPE)
endfunction()

digest_of(shared ${CORE}/base/alignment.h ${CORE}/base/coding.h ${CORE}/device/*.h ${CORE}/device/*.cc
  ${CORE}/graph/*.h ${CORE}/graph/*.cc ${CORE}/passes/*.h ${CORE}/passes/*.cc
  ${CORE}/compiler/artifact.* ${CORE}/compiler/compile.* ${CORE}/compiler/graph_key.*)
file(GLOB interface ${CORE}/backends/*.h ${CORE}/backends/*.cc)
# Every backend lowers graphs but the reference backend, which interprets them.
file(GLOB lowering_sources ${CORE}/backends/lowering/*.h ${CORE}/backends/lowering/*.cc)

set(rows "")
file(GLOB backends LIST_DIRECTORIES true RELATIVE ${CORE}/backends ${CORE}/backends/*)
foreach(backend ${backends})
  if(IS_DIRECTORY ${CORE}/backends/${backend} AND NOT backend STREQUAL "lowering")
    set(lowered ${lowering_sources})
    if(backend STREQUAL "reference")
      set(lowered "")
    endif()
    digest_of(own ${interface} ${lowered} ${CORE}/backends/${backend}/*.h ${CORE}/backends/${backend}/*.cc
      ${CORE}/backends/${backend}/*.cu ${CORE}/backends/${backend}/*.cuh)
    string(SHA256 digest "${shared}${own}")
    string(APPEND rows "    {\"${backend}\", \"${digest}\"},\n")
  endif()
endforeach()
file(WRITE ${OUTPUT} "// Generated at build time.
#pragma once

#include <utility>

#include \"absl/strings/string_view.h\"

namespace latentd::compiler {
// Backend, digest.
inline constexpr std::pair<absl::string_view, absl::string_view> kSourcesDigests[] = {
${rows}};
}  // namespace latentd::compiler
")
