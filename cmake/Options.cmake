# How every target is compiled.

# Paths below this folder are hashed relative to it, and the build folder's name is not: a fresh clone elsewhere finds what
# another one compiled. Debug symbols then may name the other clone's folder.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# -O3 for the compute kernels is set where they are (core/backends/cpu); elsewhere -O2 compiles faster and runs as fast.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wthread-safety -Werror=thread-safety)
endif()
if(LATENTD_SANITIZE)
  add_compile_options(-fsanitize=${LATENTD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${LATENTD_SANITIZE})
endif()
