# SPDX-License-Identifier: Apache-2.0
# pitot_default(VARIABLE WHAT [PACKAGE...]): the default of an option that needs packages, if the user did not set it. It is on
# if this is the top-level project and CMake finds the packages. A package with a version is one argument: "Catch2 2". The
# default is not cached, so that the next run finds packages installed in the meantime.
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
          message(STATUS "pitot: ${what} will not be built, because CMake did not find ${pitot_package} "
                         "(Debian: tools/install_packages check; -D${variable}=ON shows the error)")
          break()
        endif()
      endforeach()
    endif()
  endif()
endmacro()
