set(fh_machine riscv64)
set(fh_triple riscv64-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
