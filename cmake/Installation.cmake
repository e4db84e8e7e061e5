# cmake --install makes a folder that can be moved: bin/latentd and bin/latent, what they need of LibTorch in lib/, and the
# demo checkpoint in share/latentd/demo-model, where latentd finds it relative to itself.

foreach(program latentd latent)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()

# A LibTorch of one's own may find libcudart and libcupti elsewhere, or not need them.
foreach(library libtorch_cpu.so libc10.so libgomp.so.1 libcudart.so.13 libcupti.so.13)
  if(EXISTS ${LIBTORCH_DIR}/lib/${library})
    file(REAL_PATH ${LIBTORCH_DIR}/lib/${library} file)
    install(PROGRAMS ${file} DESTINATION lib RENAME ${library})
  endif()
endforeach()

install(DIRECTORY deploy/demo-model/base deploy/demo-model/refiner DESTINATION share/latentd/demo-model)

install(DIRECTORY ${LIBTORCH_DIR}/licenses/ DESTINATION share/doc/latentd/licenses OPTIONAL)
foreach(project googleapis grpc-proto)
  install(FILES third_party/${project}/LICENSE DESTINATION share/doc/latentd/licenses/${project})
endforeach()
