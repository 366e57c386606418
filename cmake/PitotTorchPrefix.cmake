# SPDX-License-Identifier: Apache-2.0
# pitot_keep_to_torch_prefix(), before find_package(Torch), in a scope of its own: makes it take the libraries next to its
# own configuration. Otherwise it searches for them by name in all of CMake's paths, and may take the system's: the headers
# of one LibTorch with the libraries of another.
macro(pitot_keep_to_torch_prefix)
  # The folder that find_package(Torch) will find. This search reads only a file with a version.
  unset(PitotTorchPrefix_DIR CACHE)
  set(PitotTorchPrefix_ROOT ${Torch_ROOT} $ENV{Torch_ROOT})
  if(Torch_DIR)
    set(PitotTorchPrefix_DIR ${Torch_DIR})
  endif()
  find_package(PitotTorchPrefix QUIET CONFIG NAMES Torch CONFIGS TorchConfigVersion.cmake HINTS $ENV{Torch_DIR})
  mark_as_advanced(PitotTorchPrefix_DIR)
  # The other half of its configuration is also found by name.
  if(EXISTS "${PitotTorchPrefix_DIR}/../Caffe2/Caffe2Config.cmake")
    set(Caffe2_DIR "${PitotTorchPrefix_DIR}/../Caffe2")
  endif()
  get_filename_component(pitot_torch_libraries "${PitotTorchPrefix_DIR}/../../../lib" ABSOLUTE)
  if(PitotTorchPrefix_FOUND AND EXISTS ${pitot_torch_libraries}/libtorch.so)
    list(PREPEND CMAKE_LIBRARY_PATH ${pitot_torch_libraries})
    # Forget libraries found by an earlier run elsewhere.
    foreach(pitot_torch_library c10 C10_CUDA CAFFE2_NVRTC TORCH)
      cmake_path(IS_PREFIX pitot_torch_libraries "${${pitot_torch_library}_LIBRARY}" pitot_is_beside)
      if(NOT pitot_is_beside)
        unset(${pitot_torch_library}_LIBRARY CACHE)
      endif()
    endforeach()
  endif()
endmacro()
