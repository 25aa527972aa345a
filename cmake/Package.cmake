# Installation, and Debian packages by CPack: calibd, calibctl, libcalibd-dev and python3-calibd.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(CALIBD_PACKAGE_server calibd)
set(CALIBD_PACKAGE_cli calibctl)
set(CALIBD_PACKAGE_sdk libcalibd-dev)
set(CALIBD_PACKAGE_python python3-calibd)

install(TARGETS calibd RUNTIME COMPONENT server)
install(FILES deploy/systemd/calibd.service DESTINATION lib/systemd/system COMPONENT server)
install(FILES deploy/systemd/calibd.toml DESTINATION /etc/calibd
        COMPONENT server)
install(FILES deploy/prometheus/calibd_alerts.yml deploy/prometheus/calibd_records.yml
              deploy/prometheus/alertmanager.yml
        DESTINATION ${CMAKE_INSTALL_DATADIR}/calibd COMPONENT server)
install(FILES deploy/grafana/calibd.json DESTINATION ${CMAKE_INSTALL_DATADIR}/calibd/grafana
        COMPONENT server)
install(PROGRAMS deploy/make-secrets DESTINATION ${CMAKE_INSTALL_DATADIR}/calibd COMPONENT server)
install(DIRECTORY deploy/grafana/provisioning DESTINATION ${CMAKE_INSTALL_DATADIR}/calibd
        COMPONENT server)

install(FILES ${CMAKE_BINARY_DIR}/openapi.json DESTINATION ${CMAKE_INSTALL_DATADIR}/calibd
        COMPONENT server)

install(TARGETS calibctl RUNTIME COMPONENT cli)
# What calibctl says about itself: its target calibctl_shell is not built by default.
install(DIRECTORY $<TARGET_PROPERTY:calibctl_shell,FOLDER>/man/
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT cli EXCLUDE_FROM_ALL)
install(DIRECTORY $<TARGET_PROPERTY:calibctl_shell,FOLDER>/completion/
        DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT cli EXCLUDE_FROM_ALL)

# The C++ SDK: find_package(calibd), target calibd::client.
set_target_properties(calibd_client PROPERTIES EXPORT_NAME client)
install(TARGETS calibd_client calibd_proto calibd_messages calibd_convert calibd_text calibd_core
        EXPORT calibd ARCHIVE COMPONENT sdk INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY client/cpp/include/calibd proto/calibd ${CMAKE_BINARY_DIR}/proto/generated/calibd
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk
        FILES_MATCHING PATTERN "*.h" PATTERN "*.proto" PATTERN store EXCLUDE PATTERN inference EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/calibd.protoset DESTINATION ${CMAKE_INSTALL_DATADIR}/calibd
        COMPONENT sdk)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/calibd)
install(EXPORT calibd NAMESPACE calibd:: FILE calibdTargets.cmake DESTINATION ${config_dir}
        COMPONENT sdk)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/calibdConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/calibdConfig.cmake ${CMAKE_BINARY_DIR}/calibdConfigVersion.cmake
        DESTINATION ${config_dir} COMPONENT sdk)

# The Python SDK, where Debian's Python finds it. Its target calibd_python is not built by default.
install(DIRECTORY $<TARGET_PROPERTY:calibd_python,FOLDER_OF_PACKAGE>/installed/
        DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
        # pip uses it to uninstall, which is the task of dpkg here.
        PATTERN RECORD EXCLUDE)

set(CPACK_PACKAGE_CONTACT "The calibd authors <calibd@localhost>")
configure_file(deploy/debian/changelog.in ${CMAKE_BINARY_DIR}/debian/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${CMAKE_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(component server cli sdk python)
  install(FILES deploy/debian/copyright ${CMAKE_BINARY_DIR}/debian/changelog.gz
          COMPONENT ${component}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CALIBD_PACKAGE_${component}})
endforeach()
# The licences of what the page and reports contain.
foreach(component server cli python)
  install(FILES page/dist/LICENSES.txt RENAME page-licenses.txt COMPONENT ${component}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CALIBD_PACKAGE_${component}})
endforeach()
# The alert rules and the unit refer to these pages.
install(FILES CHANGELOG.md README.md SECURITY.md COMPONENT server
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CALIBD_PACKAGE_server})
install(DIRECTORY docs COMPONENT server
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CALIBD_PACKAGE_server})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL server cli sdk python)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_SERVER_DESCRIPTION "monitors whether predicted probabilities can be trusted
 Receives predictions and labels, and reports the calibration of each model.")
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME ${CALIBD_PACKAGE_server})
set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION science)
# make-secrets needs them.
set(CPACK_DEBIAN_SERVER_PACKAGE_SUGGESTS "calibctl, openssl")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/deploy/debian/conffiles;${CMAKE_SOURCE_DIR}/deploy/debian/postinst;${CMAKE_SOURCE_DIR}/deploy/debian/prerm;${CMAKE_SOURCE_DIR}/deploy/debian/postrm")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENT_CLI_DESCRIPTION "command line of the calibration monitor calibd
 Sends predictions to calibd, shows its reports, and evaluates files itself.")
set(CPACK_DEBIAN_CLI_PACKAGE_NAME ${CALIBD_PACKAGE_cli})
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION science)
set(CPACK_COMPONENT_SDK_DESCRIPTION "C++ client and protocol of the calibration monitor calibd
 The CMake target calibd::client, the .proto files and their descriptor set.")
set(CPACK_DEBIAN_SDK_PACKAGE_NAME ${CALIBD_PACKAGE_sdk})
set(CPACK_DEBIAN_SDK_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_SDK_PACKAGE_DEPENDS
    "libabsl-dev, libgrpc++-dev, libhwy-dev, libprotobuf-dev, libxxhash-dev, pkg-config, protobuf-compiler-grpc")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "Python client of the calibration monitor calibd
 The module calibd, which sends predictions and labels, reads reports, and evaluates
 predictions without a server.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME ${CALIBD_PACKAGE_python})
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
# It has the extension module, which is for one version of Python.
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= 3.11), python3 (<< 3.12), python3-grpcio, python3-numpy, python3-protobuf")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-xxhash")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/deploy/debian/python3-calibd/postinst;${CMAKE_SOURCE_DIR}/deploy/debian/python3-calibd/prerm")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
