# SPDX-License-Identifier: Apache-2.0
# The samples for a GPU: built where CUDA's compiler is, with nothing else; they say so where there is no GPU.
include(${PROJECT_SOURCE_DIR}/cmake/PitotCuda.cmake)
pitot_enable_cuda(pitot_has_cuda)
if(NOT pitot_has_cuda)
  message(STATUS "Pitot: no CUDA compiler, the samples for a GPU are not built")
  return()
endif()

add_library(gpu_common STATIC gpu_common/sample.cc)
pitot_configure_target(gpu_common)
target_include_directories(gpu_common PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(gpu_common PUBLIC pitot::cupti pitot::nvml)
# The runtime that a sample links decides whose headers these are.
target_include_directories(gpu_common SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})

# pitot_add_gpu_sample(NAME SOURCES...): a program, its kernels in .cu files, and the tests that need no GPU.
function(pitot_add_gpu_sample name)
  set(cuda_sources ${ARGN})
  set(sources ${ARGN})
  list(FILTER cuda_sources INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  # Our warnings are not nvcc's.
  add_library(${name}_kernels STATIC ${cuda_sources})
  target_include_directories(${name}_kernels PUBLIC ${PROJECT_SOURCE_DIR}/samples)
  add_executable(${name} ${sources})
  pitot_configure_target(${name})
  target_link_libraries(${name} PRIVATE ${name}_kernels gpu_common)
  set_target_properties(${name}_kernels ${name} PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static
                                                           POSITION_INDEPENDENT_CODE ON)
  if(PITOT_BUILD_TESTS)
    set(incidents ${CMAKE_CURRENT_BINARY_DIR}/incidents)
    add_test(NAME samples.${name}.help COMMAND ${name} --help)
    add_test(NAME samples.${name}.no_gpu
             COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DINCIDENTS=${incidents}
                     -P ${PROJECT_SOURCE_DIR}/samples/gpu_common/no_gpu_test.cmake)
    add_test(NAME samples.${name} COMMAND ${name} --requests 5 --incident-dir ${incidents})
    set_tests_properties(samples.${name} PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL ON)
    set_tests_properties(samples.${name} samples.${name}.help samples.${name}.no_gpu PROPERTIES TIMEOUT 120)
  endif()
endfunction()

# Folders of their own, because LibTorch changes how CUDA is compiled in the one where it is looked for.
add_subdirectory(attention_compare)
add_subdirectory(graph_decode)
add_subdirectory(small_copies)
add_subdirectory(vector_add)

# For benchmarks/graph_steps.py: the steps of graph_decode, with and without the default set.
add_executable(graph_steps EXCLUDE_FROM_ALL
  ${PROJECT_SOURCE_DIR}/benchmarks/graph_steps.cc graph_decode/decoder.cc graph_decode/weights.cc)
pitot_configure_target(graph_steps)
target_link_libraries(graph_steps PRIVATE graph_decode_kernels gpu_common pitot::gpu)
set_target_properties(graph_steps PROPERTIES CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON)
