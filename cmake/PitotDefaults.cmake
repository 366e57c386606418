# SPDX-License-Identifier: Apache-2.0
# pitot_default(VARIABLE WHAT [PACKAGE...]): the default of an option that needs packages, where nobody chose a value: on where
# this is the project being built and CMake finds them. A package with a version is one argument: "Catch2 2". Not in the cache,
# so that the next run finds what was installed meanwhile.
macro(pitot_default variable what)
  if(NOT DEFINED ${variable})
    set(${variable} ${PROJECT_IS_TOP_LEVEL})
    if(${variable})
      foreach(pitot_package ${ARGN})
        separate_arguments(pitot_package)
        find_package(${pitot_package} QUIET)
        list(GET pitot_package 0 pitot_package)
        if(NOT ${pitot_package}_FOUND)
          set(${variable} OFF)
          message(STATUS "pitot: ${what} will not be built: CMake does not find ${pitot_package} "
                         "(Debian: tools/install_packages check; -D${variable}=ON shows the error)")
          break()
        endif()
      endforeach()
    endif()
  endif()
endmacro()
