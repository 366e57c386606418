# SPDX-License-Identifier: Apache-2.0
# Install rules: find_package(pitot COMPONENTS ...), pkg-config, and the command line tool. A component is a library made by
# pitot_add_library, or c; pitot.pc is for trace and core, and most others have a .pc file of their own. The installed tree may
# be moved: it contains no path of the build machine.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(pitot_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pitot)
get_property(pitot_components GLOBAL PROPERTY PITOT_COMPONENTS)
if(TARGET pitot_c)
  list(APPEND pitot_components c)
endif()
get_property(pitot_c_components GLOBAL PROPERTY PITOT_C_COMPONENTS)

# Every component exports a file of its own, so that a package has exactly the targets it was built with.
foreach(component IN LISTS pitot_components)
  set(targets pitot_${component})
  if(component STREQUAL reader AND TARGET pitot_dump_proto)
    get_target_property(pitot_dump_proto_type pitot_dump_proto TYPE)
    # A static reader's users link the generated messages, too.
    if(NOT BUILD_SHARED_LIBS OR pitot_dump_proto_type STREQUAL OBJECT_LIBRARY)
      set_target_properties(pitot_dump_proto PROPERTIES EXPORT_NAME dump_proto)
      foreach(property INTERFACE_INCLUDE_DIRECTORIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
        get_target_property(folders pitot_dump_proto ${property})
        set_target_properties(pitot_dump_proto PROPERTIES ${property} "$<BUILD_INTERFACE:${folders}>")
      endforeach()
      list(APPEND targets pitot_dump_proto)
    endif()
  endif()
  if(BUILD_SHARED_LIBS)
    # Libraries of the package find each other in their own folder.
    set_target_properties(pitot_${component} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endif()
  install(TARGETS ${targets} EXPORT pitot-${component}-targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT pitot-${component}-targets NAMESPACE pitot:: DESTINATION ${pitot_package_dir})
endforeach()

get_property(pitot_modules GLOBAL PROPERTY PITOT_INSTALLED_MODULES)
install(TARGETS ${pitot_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(TARGET pitot_reader)
  set(pitot_headers_left_out)
else()
  set(pitot_headers_left_out PATTERN read EXCLUDE)
endif()
if(NOT TARGET pitot_sinks)
  list(APPEND pitot_headers_left_out PATTERN sinks EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/pitot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" ${pitot_headers_left_out})

# The packages for users of a component, and the components it is on, as lines of CMake.
set(pitot_component_packages "")
foreach(component IN LISTS pitot_components)
  get_property(packages GLOBAL PROPERTY PITOT_PACKAGES_${component})
  if(packages)
    string(APPEND pitot_component_packages "set(_pitot_packages_${component} ${packages})\n")
  endif()
  get_property(on GLOBAL PROPERTY PITOT_ON_${component})
  if(on)
    string(APPEND pitot_component_packages "set(_pitot_on_${component} ${on})\n")
  endif()
endforeach()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pitotConfig.cmake.in ${PROJECT_BINARY_DIR}/pitotConfig.cmake
                              INSTALL_DESTINATION ${pitot_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pitotConfigVersion.cmake VERSION ${PROJECT_VERSION}
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pitotConfig.cmake ${PROJECT_BINARY_DIR}/pitotConfigVersion.cmake
        DESTINATION ${pitot_package_dir})

# pkg-config. A static package must name the archives' dependencies in Libs, because its users do not ask for --static. Libs
# of a shared package names both libraries, because a server uses both.
list(TRANSFORM CMAKE_DL_LIBS PREPEND "-l" OUTPUT_VARIABLE pitot_dl)
set(pitot_pc_needs "-pthread ${pitot_dl}")
string(STRIP "${pitot_pc_needs}" pitot_pc_needs)
if(BUILD_SHARED_LIBS)
  set(pitot_pc_libs "")
  set(pitot_pc_private " ${pitot_pc_needs}")
else()
  set(pitot_pc_libs " ${pitot_pc_needs} -Wl,--export-dynamic-symbol=pitot_process -Wl,-z,nodelete")
  set(pitot_pc_private "")
endif()
# The relative path from pitot.pc to the prefix.
file(RELATIVE_PATH pitot_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pitot_pc_prefix "${pitot_pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/pitot.pc.in ${PROJECT_BINARY_DIR}/pitot.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pitot.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Each other component has a .pc file that requires pitot.pc: its library comes before those of pitot.pc.
get_property(pitot_pc_components GLOBAL PROPERTY PITOT_PKG_CONFIG)
list(REMOVE_ITEM pitot_pc_components trace core)
foreach(pitot_pc_component IN LISTS pitot_pc_components)
  set(pitot_pc_component_libs "")
  get_property(on GLOBAL PROPERTY PITOT_ON_${pitot_pc_component})
  list(TRANSFORM on REPLACE "(.+)" "pitot_\\1 = ${PROJECT_VERSION}, ")
  string(JOIN "" pitot_pc_on ${on})
  if(NOT BUILD_SHARED_LIBS)
    # The same options as on its target.
    get_target_property(options pitot_${pitot_pc_component} INTERFACE_LINK_OPTIONS)
    foreach(option IN LISTS options)
      if(option MATCHES "^LINKER:(.*)$")
        string(APPEND pitot_pc_component_libs " -Wl,${CMAKE_MATCH_1}")
      endif()
    endforeach()
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/pitot_component.pc.in ${PROJECT_BINARY_DIR}/pitot_${pitot_pc_component}.pc
                 @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pitot_${pitot_pc_component}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(TARGET pitot_c)
  install(FILES ${PROJECT_SOURCE_DIR}/bindings/c/include/pitot/c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pitot)
  configure_file(${PROJECT_SOURCE_DIR}/bindings/c/pitot_c.pc.in ${PROJECT_BINARY_DIR}/pitot_c.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pitot_c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(TARGET pitot)
  if(BUILD_SHARED_LIBS)
    set_target_properties(pitot PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
  install(TARGETS pitot RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
