# Sources of all third-party libraries. LibTorch is the one that Debian does not ship in the version we need: LIBTORCH_DIR holds
# lib/libtorch_cpu.so, lib/libc10.so, lib/libgomp.so.1 and include/; deploy/dependencies puts it there.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.74 REQUIRED)  # headers alone: Asio and Beast
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
# VP9 of WebM, where libvpx is there: the program builds and passes its tests without it.
pkg_check_modules(VPX IMPORTED_TARGET vpx)
option(LATENTD_WEBM "Write videos as WebM, by libvpx" ${VPX_FOUND})
if(LATENTD_WEBM AND NOT VPX_FOUND)
  message(FATAL_ERROR "LATENTD_WEBM is on, and it needs libvpx: deploy/dependencies installs Debian's libvpx-dev")
endif()
pkg_check_modules(DEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PROMETHEUS_CORE REQUIRED IMPORTED_TARGET prometheus-cpp-core)
find_library(CIVETWEB_LIBRARY civetweb REQUIRED)

execute_process(COMMAND ${PROJECT_SOURCE_DIR}/deploy/dependencies --print-folder OUTPUT_VARIABLE LATENTD_DEPENDENCIES_DEFAULT
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(LIBTORCH_DIR ${LATENTD_DEPENDENCIES_DEFAULT}/libtorch CACHE PATH "LibTorch 2.11.0: a folder with lib/ and include/")
if(NOT EXISTS ${LIBTORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no lib/libtorch_cpu.so under LIBTORCH_DIR=${LIBTORCH_DIR}: run deploy/dependencies, or pass -DLIBTORCH_DIR=")
endif()

# Clang has no code for libgomp, and its own libomp beside LibTorch's libgomp would be a second pool of threads: there OpenMP's
# regions run on one thread.
add_library(latentd_openmp INTERFACE)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(latentd_openmp INTERFACE -fopenmp=libgomp)
  target_link_libraries(latentd_openmp INTERFACE ${LIBTORCH_DIR}/lib/libgomp.so.1)
else()
  find_package(OpenMP REQUIRED)
  target_link_libraries(latentd_openmp INTERFACE OpenMP::OpenMP_CXX)
endif()

# The wheel carries headers of another protobuf (include/google), so its directory goes behind the system's: -idirafter.
add_library(latentd_libtorch INTERFACE)
target_compile_options(latentd_libtorch INTERFACE "SHELL:-idirafter ${LIBTORCH_DIR}/include")
target_link_libraries(latentd_libtorch INTERFACE latentd_openmp
  ${LIBTORCH_DIR}/lib/libtorch_cpu.so ${LIBTORCH_DIR}/lib/libc10.so ${LIBTORCH_DIR}/lib/libgomp.so.1)
# libtorch_cpu.so of the CUDA wheel needs libcudart and libcupti, which lie beside it or where CUDA is installed.
target_link_options(latentd_libtorch INTERFACE -Wl,-rpath-link,${LIBTORCH_DIR}/lib:/usr/local/cuda/lib64)

# CUDA, where there is a toolkit with cuDNN (deploy/dependencies --cuda makes one where none is installed), cudnn-frontend and
# CUTLASS, which deploy/dependencies puts beside LibTorch: the program builds and passes its tests without them. cuBLASLt and
# cuDNN are loaded when a GPU is used, and not linked.
if(NOT CUDAToolkit_ROOT AND EXISTS ${LATENTD_DEPENDENCIES_DEFAULT}/cuda/bin/nvcc)
  set(CUDAToolkit_ROOT ${LATENTD_DEPENDENCIES_DEFAULT}/cuda)
endif()
find_package(CUDAToolkit 13 QUIET)
set(CUDNN_FRONTEND_DIR ${LATENTD_DEPENDENCIES_DEFAULT}/cudnn-frontend CACHE PATH "cudnn-frontend 1.32: a folder with include/")
set(CUTLASS_DIR ${LATENTD_DEPENDENCIES_DEFAULT}/cutlass CACHE PATH "CUTLASS 4.2: a folder with include/")
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(CUDAToolkit_FOUND AND CUDNN_INCLUDE_DIR AND EXISTS ${CUDNN_FRONTEND_DIR}/include/cudnn_frontend.h
   AND EXISTS ${CUTLASS_DIR}/include/cutlass/cutlass.h)
  set(cuda_default ON)
else()
  set(cuda_default OFF)
endif()
option(LATENTD_CUDA "Build for NVIDIA GPUs" ${cuda_default})
if(LATENTD_CUDA AND NOT cuda_default)
  message(FATAL_ERROR "LATENTD_CUDA is on, and it needs a CUDA toolkit 13 (-DCUDAToolkit_ROOT=), cuDNN 9's headers "
    "(-DCUDNN_INCLUDE_DIR=), cudnn-frontend (-DCUDNN_FRONTEND_DIR=) and CUTLASS (-DCUTLASS_DIR=): deploy/dependencies --cuda "
    "brings what is missing")
endif()
if(LATENTD_CUDA)
  # Its host compiler is the system's g++ whatever compiles the rest, so ccache finds in each build tree what another has compiled.
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  # The targets say which; CMake's names for them do not know sm_90a.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  # Programs in the build tree load cuBLASLt and cuDNN from the toolkit that they were built with.
  list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
  # The headers of cudnn-frontend throw exceptions and cause warnings.
  add_library(latentd_cudnn_frontend INTERFACE)
  target_include_directories(latentd_cudnn_frontend SYSTEM INTERFACE ${CUDNN_FRONTEND_DIR}/include ${CUDNN_INCLUDE_DIR})
  target_link_libraries(latentd_cudnn_frontend INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
endif()
