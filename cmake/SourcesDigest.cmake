# cmake -DOUTPUT=FILE -DSOURCES=LIST -P SourcesDigest.cmake: a header with one digest of all these files.
set(all "")
foreach(source ${SOURCES})
  file(SHA256 ${source} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 all "${all}")
file(WRITE ${OUTPUT} "// Generated at build time.\n#pragma once\n\nnamespace latentd::compiler {\ninline constexpr char kSourcesDigest[] = \"${all}\";\n}  // namespace latentd::compiler\n")
