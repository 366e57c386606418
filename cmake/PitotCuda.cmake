# SPDX-License-Identifier: Apache-2.0
# pitot_enable_cuda(RESULT): enables CUDA as a language of the calling folder, for the GPUs of the project's tests. Without
# nvcc, or under a sanitizer (CUDA's compiler has none), RESULT is false and nothing changes.
macro(pitot_enable_cuda result)
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(CMAKE_CUDA_COMPILER nvcc HINTS /usr/local/cuda/bin)
  endif()
  set(${result} FALSE)
  if(CMAKE_CUDA_COMPILER AND NOT PITOT_SANITIZE)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 75-virtual 90-real)
    endif()
    enable_language(CUDA)
    set(${result} TRUE)
  endif()
endmacro()
