set(fh_machine ppc64le)
set(fh_triple powerpc64le-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
