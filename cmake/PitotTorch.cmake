# SPDX-License-Identifier: Apache-2.0
# LibTorch, looked for once: pitot_libtorch, as it is linked here. It changes how CUDA is compiled in the scope where it
# is looked for: in one of its own.
if(TARGET pitot_libtorch)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/PitotTorchPrefix.cmake)
block()
  pitot_keep_to_torch_prefix()
  find_package(Torch REQUIRED GLOBAL)
  set(PITOT_TORCH_VERSION "${Torch_VERSION}" CACHE INTERNAL "")
  add_library(pitot_libtorch INTERFACE)
  target_link_libraries(pitot_libtorch INTERFACE ${TORCH_LIBRARIES})
  # Its headers are not clean under our warnings.
  target_include_directories(pitot_libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  # Its classes have other members in debug builds: whoever uses them is built without, wherever it came from.
  target_compile_definitions(pitot_libtorch INTERFACE NDEBUG)
endblock()
