# SPDX-License-Identifier: Apache-2.0
# The common settings of this project's targets: C++20 inside, hidden symbols, warnings, programs in <build>/bin.

find_package(Threads REQUIRED)

# Only for the top-level project: a host with Pitot as a subdirectory keeps its own layout and launcher.
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(PITOT_CCACHE ccache)
    mark_as_advanced(PITOT_CCACHE)
    if(PITOT_CCACHE)
      # Clones in different folders share their compiled files.
      set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                      ${PITOT_CCACHE})
    endif()
  endif()
endif()

# The settings of every target of the project.
function(pitot_configure_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                           # g++ 12 falsely sees overlaps in std::string's + (GCC bug 105651).
                                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                                           # g++ takes a source file for a header if it is compiled together with others.
                                           $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>
                                           $<$<BOOL:${PITOT_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # What base/mutex.h annotates: guarded variables, and (beta) the lock order.
    target_compile_options(${target} PRIVATE -Wthread-safety -Wthread-safety-beta -Werror=thread-safety)
  endif()
  if(PITOT_SANITIZE)
    # In instrumented code g++ falsely sees uninitialised reads.
    target_compile_options(${target} PRIVATE -fsanitize=${PITOT_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all
                                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # Installed packages never have this option: a sanitized build is for our own tests.
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${PITOT_SANITIZE}>)
  endif()
endfunction()

# pitot_add_library(NAME SOURCES... [PUBLIC libs...] [PRIVATE libs...] [ON components...] [PACKAGES names...] [NO_PKG_CONFIG]):
# target pitot_NAME, alias pitot::NAME, and component NAME of the package. It links the components ON, and hands them to its
# users. The package's users need PACKAGES as well. This is the only list of components: the rules of installing, pkg-config and the tests of the package read it from global properties.
function(pitot_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_PKG_CONFIG" "" "SOURCES;PUBLIC;PRIVATE;ON;PACKAGES")
  set_property(GLOBAL APPEND PROPERTY PITOT_COMPONENTS ${name})
  set_property(GLOBAL PROPERTY PITOT_PACKAGES_${name} ${arg_PACKAGES})
  set_property(GLOBAL PROPERTY PITOT_ON_${name} ${arg_ON})
  list(TRANSFORM arg_ON PREPEND pitot::)
  if(NOT arg_NO_PKG_CONFIG)
    set_property(GLOBAL APPEND PROPERTY PITOT_PKG_CONFIG ${name})
  endif()
  add_library(pitot_${name} ${arg_SOURCES})
  add_library(pitot::${name} ALIAS pitot_${name})
  pitot_configure_target(pitot_${name})
  # The ABI may change with every minor version of 0.x, and from 1.0 on with every major version.
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  else()
    set(soversion ${PROJECT_VERSION_MAJOR})
  endif()
  set_target_properties(pitot_${name} PROPERTIES EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
  target_include_directories(pitot_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                  $<INSTALL_INTERFACE:include>
                                           PRIVATE ${PROJECT_SOURCE_DIR}/lib)
  target_compile_features(pitot_${name} INTERFACE cxx_std_17)
  target_link_libraries(pitot_${name} PUBLIC ${arg_PUBLIC} ${arg_ON} PRIVATE ${arg_PRIVATE})
  get_target_property(type pitot_${name} TYPE)
  if(type STREQUAL SHARED_LIBRARY)
    # The libraries use each other's internals, so the map decides their visibility, not the compiler.
    set_target_properties(pitot_${name} PROPERTIES CXX_VISIBILITY_PRESET default)
    target_link_options(pitot_${name} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
                                              LINKER:-Bsymbolic-functions
                                              # Vendors hold pointers to callbacks, and threads may still run in them.
                                              LINKER:-z,nodelete)
    if(NOT PITOT_SANITIZE)  # a sanitizer's runtime is found only at the program's link
      target_link_options(pitot_${name} PRIVATE LINKER:-z,defs)
    endif()
    set_property(TARGET pitot_${name} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  endif()
endfunction()

# pitot_add_collector(NAME SOURCES... [PRIVATE libs...] [ON components...] [PACKAGES names...] [NO_PKG_CONFIG]):
# pitot_add_library on pitot::core, for a folder of lib/collect. Global property PITOT_COLLECTORS lists them.
function(pitot_add_collector name)
  set_property(GLOBAL APPEND PROPERTY PITOT_COLLECTORS ${name})
  pitot_add_library(${name} ${ARGN} PUBLIC pitot::core)
endfunction()
