# How every target is compiled.

# Paths below this folder are hashed relative to it, and the build folder's name is not: a fresh clone elsewhere finds what
# another one compiled. Debug symbols then may name the other clone's folder.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# -O3 for the compute kernels is set where they are (core/backends/cpu); elsewhere -O2 compiles faster and runs as fast.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(warnings -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety;-Werror=thread-safety>")
endif()
if(LATENTD_SANITIZE)
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LATENTD_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>")
  add_link_options(-fsanitize=${LATENTD_SANITIZE})
endif()

# nvcc compiles kernels, the same in every configuration: sanitizers of the host and no optimisation say nothing about them.
foreach(configuration RELEASE DEBUG RELWITHDEBINFO)
  set(CMAKE_CUDA_FLAGS_${configuration} "-O3")
endforeach()
list(JOIN warnings "," host_warnings)
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_warnings}>")
