set(fh_machine armhf)
set(fh_triple arm-linux-gnueabihf)
set(fh_emulator /usr/bin/qemu-arm-static -L /usr/${fh_triple})
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
