# The targets on Windows: freehold.dll, its import library, libfreehold.a, and tests. Included by CMakeLists.txt.
set(fh_windows_flags -Wall -Wextra -Wno-unknown-attributes -Wno-ignored-attributes -Wno-format -fvisibility=hidden
  -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -falign-functions=64)

file(GLOB_RECURSE fh_windows_files CONFIGURE_DEPENDS src/*.c src/*.h)
set_source_files_properties(src/all.c PROPERTIES OBJECT_DEPENDS "${fh_windows_files};${CMAKE_CURRENT_SOURCE_DIR}/include/freehold/freehold.h")

add_library(freehold_shared SHARED src/all.c)
target_compile_definitions(freehold_shared PRIVATE FH_SHARED)
add_library(freehold_static STATIC src/all.c)
set_target_properties(freehold_shared freehold_static PROPERTIES OUTPUT_NAME freehold)
set_target_properties(freehold_shared PROPERTIES PREFIX "" IMPORT_PREFIX lib RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
foreach(target freehold_shared freehold_static)
  target_compile_options(${target} PRIVATE ${fh_windows_flags} -O2 -g1)
  target_include_directories(${target} INTERFACE include)
endforeach()
target_link_libraries(freehold_shared PRIVATE ntdll)
target_link_libraries(freehold_static INTERFACE ntdll)

# File by file, with every assertion: for the unit tests. What is of Linux, of glibc or of ELF is not built.
list(FILTER fh_windows_files INCLUDE REGEX "\\.c$")
list(FILTER fh_windows_files EXCLUDE REGEX "/(all|secure/[a-z]+|slab/secrets|slab/states|stock/quarantine)\\.c$")
list(FILTER fh_windows_files EXCLUDE REGEX "/os/linux/")
list(FILTER fh_windows_files EXCLUDE REGEX "/api/(foreign|glibc|new|layout|bounds)\\.c$")
add_library(freehold_check STATIC EXCLUDE_FROM_ALL ${fh_windows_files})
target_compile_options(freehold_check PRIVATE ${fh_windows_flags} -O1 -g -DFH_CHECK=2)

if(FH_INSTALL)
  install(TARGETS freehold_shared freehold_static RUNTIME DESTINATION bin ARCHIVE DESTINATION lib)
  install(DIRECTORY include/freehold DESTINATION include)
endif()

if(FH_TESTS)
  enable_testing()
  add_subdirectory(test/windows)
endif()
