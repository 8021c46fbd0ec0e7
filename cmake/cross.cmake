# For another processor: Debian's cross compiler, and its emulator for what is run. The toolchain file of a processor
# sets `fh_machine` and `fh_triple` and includes this. `fh_emulator`: other than qemu's for `fh_machine`.
if(NOT fh_emulator)
  set(fh_emulator /usr/bin/qemu-${fh_machine}-static -L /usr/${fh_triple})
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${fh_machine})
set(CMAKE_C_COMPILER ${fh_triple}-gcc)
set(CMAKE_CXX_COMPILER ${fh_triple}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${fh_triple})
set(CMAKE_FIND_ROOT_PATH /usr/${fh_triple})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${fh_emulator})
