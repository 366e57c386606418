# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch once: target pitot_libtorch. The search changes CUDA's flags in its scope, so it has a scope of its own.
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
  # Its headers give warnings with our flags.
  target_include_directories(pitot_libtorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  # Its classes have other members in debug builds. All users of LibTorch are built without them, for any LibTorch.
  target_compile_definitions(pitot_libtorch INTERFACE NDEBUG)
endblock()
