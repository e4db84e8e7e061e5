# One directory, one library, linking only the directories it may include (the table is in docs/architecture.md).

# latentd_library(NAME directory... [LINK third-party...]) makes latentd_NAME from the *.cc of the current directory.
function(latentd_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(TRANSFORM ARG_UNPARSED_ARGUMENTS PREPEND latentd_ OUTPUT_VARIABLE directories)
  if(sources)
    add_library(latentd_${name} STATIC ${sources})
    target_include_directories(latentd_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(latentd_${name} PUBLIC ${directories} ${ARG_LINK})
  else()
    add_library(latentd_${name} INTERFACE)
    target_include_directories(latentd_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(latentd_${name} INTERFACE ${directories} ${ARG_LINK})
  endif()
endfunction()

# latentd_test(NAME library... [LABEL label]) makes the test program NAME_test from the *_test.cc of the current directory.
# ctest runs it whole, since starting it costs more than most tests (it maps LibTorch); its report in reports/ has each test.
function(latentd_test name)
  cmake_parse_arguments(ARG "" "LABEL" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  if(LATENTD_SANITIZE MATCHES thread)
    target_sources(${name}_test PRIVATE
      ${PROJECT_SOURCE_DIR}/tests/support/tsan/abseil.cc ${PROJECT_SOURCE_DIR}/tests/support/tsan/openmp.cc)
  endif()
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name}_test PRIVATE ${ARG_UNPARSED_ARGUMENTS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE LATENTD_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name}_test --gtest_output=xml:${PROJECT_BINARY_DIR}/reports/${name}.xml)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 1200)
endfunction()
