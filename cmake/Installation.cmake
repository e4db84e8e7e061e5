# cmake --install makes a folder that can be moved: bin/latentd and bin/latent, what they need of LibTorch in lib/, and the
# demo checkpoint in share/latentd/demo-model, where latentd finds it relative to itself, and the services' descriptors.
#
# Two more are made by name only (--component): cuda, the libraries that a GPU is used with, and tools, the programs that compare
# and measure, those of them that are built. deploy/bundle makes a folder of these that needs no package of Debian's either, and
# deploy/wheel a wheel of that.

set(licenses share/doc/latentd/licenses)

foreach(program latentd latent)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()

if(LATENTD_BUILD_TESTS)
  get_property(bench_targets DIRECTORY tests/bench PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target golden ${bench_targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
      install(TARGETS ${target} RUNTIME DESTINATION bin COMPONENT tools EXCLUDE_FROM_ALL OPTIONAL)
    endif()
  endforeach()
endif()

# install_library(FILE NAME [COMPONENT...]): what a link leads to, under the name that programs look for.
function(install_library file name)
  file(REAL_PATH ${file} file)
  install(PROGRAMS ${file} DESTINATION lib RENAME ${name} ${ARGN})
endfunction()

# A LibTorch of one's own may find libcudart and libcupti elsewhere, or not need them.
foreach(library libtorch_cpu.so libc10.so libgomp.so.1 libcudart.so.13 libcupti.so.13)
  if(EXISTS ${LIBTORCH_DIR}/lib/${library})
    install_library(${LIBTORCH_DIR}/lib/${library} ${library} COMPONENT libtorch)
  endif()
endforeach()
install(DIRECTORY ${LIBTORCH_DIR}/licenses/ DESTINATION ${licenses} COMPONENT libtorch OPTIONAL)

if(LATENTD_CUDA)
  # cuDNN's parts load each other, and NVRTC.
  find_file(CUDNN_LIBRARY libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  cmake_path(GET CUDNN_LIBRARY PARENT_PATH cudnn_libraries)
  file(GLOB libraries ${cudnn_libraries}/libcudnn*.so.9 ${CUDAToolkit_LIBRARY_DIR}/libcublasLt.so.13
    ${CUDAToolkit_LIBRARY_DIR}/libnvrtc.so.13
    ${CUDAToolkit_LIBRARY_DIR}/libnvrtc-builtins.so.13.${CUDAToolkit_VERSION_MINOR})
  foreach(file ${libraries})
    cmake_path(GET file FILENAME name)
    install_library(${file} ${name} COMPONENT cuda EXCLUDE_FROM_ALL)
  endforeach()
  cmake_path(GET CUDAToolkit_BIN_DIR PARENT_PATH toolkit)
  file(GLOB folders ${toolkit}/licenses/nvidia_cublas-* ${toolkit}/licenses/nvidia_cudnn_cu13-*
    ${toolkit}/licenses/nvidia_cuda_nvrtc-*)
  install(DIRECTORY ${folders} DESTINATION ${licenses} COMPONENT cuda EXCLUDE_FROM_ALL)
  # Compiled in.
  install(DIRECTORY ${CUDNN_FRONTEND_DIR}/licenses/ DESTINATION ${licenses}/nvidia_cudnn_frontend-1.32.0 OPTIONAL)
  install(DIRECTORY ${CUTLASS_DIR}/licenses/ DESTINATION ${licenses}/nvidia_cutlass-4.2.0.0 OPTIONAL)
endif()

install(FILES ${PROJECT_BINARY_DIR}/proto/latent.binpb DESTINATION share/latentd)
install(DIRECTORY deploy/demo-model/base deploy/demo-model/refiner deploy/demo-model/video DESTINATION share/latentd/demo-model)
foreach(project clip googleapis grpc-proto)
  install(FILES third_party/${project}/LICENSE DESTINATION ${licenses}/${project})
endforeach()
