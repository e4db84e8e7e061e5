# One directory, one library, linking only the directories it may include (the table is in docs/architecture.md).

# latentd_library(NAME directory... [ROOMS subdirectory...] [LINK third-party...]) makes latentd_NAME from the *.cc of the current
# directory and of its rooms: subdirectories of the same namespace, each of which includes none that is named after it.
function(latentd_library name)
  cmake_parse_arguments(ARG "" "" "ROOMS;LINK" ${ARGN})
  set(patterns ${ARG_ROOMS})
  list(TRANSFORM patterns APPEND /*.cc)
  list(TRANSFORM patterns PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns} ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
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

# latentd_separate(file...): in the current directory, files with a name in their unnamed namespace that another one of their target
# has too. The presets compile several files as one (CMAKE_UNITY_BUILD in CMakePresets.json), which takes half the
# time; these they compile alone. Names that differ are the other way to mend what the compiler calls a redefinition there.
function(latentd_separate)
  foreach(file ${ARGN})
    get_filename_component(path ${file} ABSOLUTE)
    if(NOT EXISTS ${path})
      message(FATAL_ERROR "latentd_separate names ${file}, which is not there")
    endif()
  endforeach()
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# How long a test may take, in seconds: some four times what the longest one takes on two cores. One that hangs must leave CI the
# time to run it again, and to run the others.
if(LATENTD_SANITIZE)
  set(latentd_test_limit 900)
else()
  set(latentd_test_limit 600)
endif()

# Tests that take longest, with their seconds in CI: ctest starts these first, so that none of them runs alone at the end. A tree
# that has run its tests knows better, but CI's is new.
set(latentd_long_tests
  golden=203 conformance=200 integration_threads=166
  core_engine.1=150 core_engine.2=150 core_engine.3=150 core_engine.4=150 core_engine.5=150 core_engine.6=150
  integration_cache_damage=116 bench_load_reduced=110
  core_pipeline.1=95 core_pipeline.2=95 core_pipeline.3=95 core_pipeline.4=95 core_weights_containers=90 core_backends=90 core_families=90
  core_batching=90 integration_single_file=90 integration_checkpoint_edits=90
  integration_graphs=65 integration_client_memory=65 integration_kubernetes=65 integration_startup=65 integration_wiring=65
  monitoring=60 integration_bad_input=40 server=40)

# latentd_ci(NAME TREES tree... [PROGRAM target]): says in which of its build trees CI runs ctest's test NAME: release, asan, tsan.
# The tree is a label of the test, and the target TREE_tests builds the programs of all tests of a tree.
function(latentd_ci name)
  cmake_parse_arguments(ARG "" "PROGRAM" "TREES" ${ARGN})
  set_property(TEST ${name} APPEND PROPERTY LABELS ${ARG_TREES})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${latentd_test_limit})
  foreach(long ${latentd_long_tests})
    if(long MATCHES "^(.+)=([0-9]+)$" AND CMAKE_MATCH_1 STREQUAL name)
      set_tests_properties(${name} PROPERTIES COST ${CMAKE_MATCH_2})
    endif()
  endforeach()
  foreach(tree ${ARG_TREES})
    if(ARG_PROGRAM)
      add_dependencies(${tree}_tests ${ARG_PROGRAM})
    endif()
  endforeach()
endfunction()

# latentd_test(NAME library... [TREES tree...] [PARTS n] [SOURCES file...] [ONE_THREAD pattern...] [THREADS pattern...]) makes the test
# program NAME_test from the *_test.cc of the current directory, or from these files.
# ctest runs it whole, since starting it costs more than most tests (it maps LibTorch), or in so many parts side by side, NAME.1 and
# on, of whole suites (tests/support/parts); its reports in reports/ have each test.
# In CI it runs under AddressSanitizer alone, unless TREES says otherwise. ThreadSanitizer leaves out tests whose names match a
# pattern of ONE_THREAD: arithmetic for which one thread does everything, so that there is nothing for it to see; and requests to an
# engine one after the other, in which threads meet as they do in tests that stay. Where most of a program is so, THREADS has the
# patterns of those that stay; not for a program in parts.
function(latentd_test name)
  cmake_parse_arguments(ARG "" "PARTS" "TREES;SOURCES;ONE_THREAD;THREADS" ${ARGN})
  if(NOT ARG_TREES)
    set(ARG_TREES asan)
  endif()
  # Tests that are chosen by their names run in any part (tests/support/parts): each part would run them all.
  if(ARG_THREADS AND ARG_PARTS)
    message(FATAL_ERROR "latentd_test ${name} has both THREADS and PARTS")
  endif()
  set(sources ${ARG_SOURCES})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  endif()
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  # With a sanitizer, GoogleTest's templates take most of the time to compile: 75 s of processor time for eight files of tests/server,
  # 28 s so. The libraries under test keep their flags.
  if(LATENTD_SANITIZE)
    # An assertion holds __FILE__, which is relative so: a unity build includes files by their whole paths, and ccache would find
    # nothing of another clone.
    target_compile_options(${name}_test PRIVATE -O0 -fno-sanitize=undefined -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  endif()
  if(LATENTD_SANITIZE MATCHES thread)
    file(GLOB orders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/tsan/*.cc)
    target_sources(${name}_test PRIVATE ${orders})
    latentd_separate(${orders})
  endif()
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
  set(main GTest::gtest_main)
  if(ARG_PARTS)
    set(main latentd_test_parts)
  endif()
  target_link_libraries(${name}_test PRIVATE ${main} latentd_source_directory ${ARG_UNPARSED_ARGUMENTS} GTest::gmock GTest::gtest)
  set(tests ${name})
  if(ARG_PARTS)
    set(tests ${name}.1)
    foreach(part RANGE 2 ${ARG_PARTS})
      list(APPEND tests ${name}.${part})
    endforeach()
  endif()
  set(part 1)
  foreach(test ${tests})
    add_test(NAME ${test} COMMAND ${name}_test --gtest_output=xml:${PROJECT_BINARY_DIR}/reports/${test}.xml)
    if(ARG_PARTS)
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LATENTD_TEST_PART=${part}/${ARG_PARTS})
    endif()
    if(LATENTD_SANITIZE MATCHES thread AND (ARG_ONE_THREAD OR ARG_THREADS))
      list(JOIN ARG_ONE_THREAD ":" left_out)
      list(JOIN ARG_THREADS ":" chosen)
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT GTEST_FILTER=${chosen}-${left_out})
    endif()
    math(EXPR part "${part} + 1")
    latentd_ci(${test} TREES ${ARG_TREES} PROGRAM ${name}_test)
  endforeach()
endfunction()
