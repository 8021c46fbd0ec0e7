# For musl on this processor: Debian's musl-gcc, and the kernel's headers behind musl's. Of C alone, for there is no C++
# library for musl; nothing emulates it.
set(fh_machine musl)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${fh_machine})
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu")
# Without it a program has no header of its unwind tables, and call stacks end where frame pointers do.
foreach(fh_kind EXE SHARED)
  set(CMAKE_${fh_kind}_LINKER_FLAGS_INIT "-Wl,--eh-frame-hdr")
endforeach()
