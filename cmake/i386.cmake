set(fh_machine i386)
set(fh_triple i686-linux-gnu)
set(fh_emulator /usr/bin/env) # the processor itself, with the libraries of libc6-i386
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
