# What small programs execute lies side by side in the shared library. The system maps 16 pages around the one that is
# touched, so such a program has a quarter of the library in memory, and not nearly all.
#
# The linker's own script is taken, and what order.txt names is put first in .text: of NAME.hot not what the compiler split
# off as unlikely. Constants that all read stand before it. Of the variables, a table of which all touch the first entries
# stands behind the small ones. A linker that shows no script lays all this out as it likes.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/order.txt)
set(fh_order)
set(fh_script_file ${CMAKE_CURRENT_BINARY_DIR}/order.ld)
execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib ${fh_link_flags} -Wl,--verbose -x c - -o ${fh_script_file}.o
  INPUT_FILE /dev/null OUTPUT_VARIABLE fh_script ERROR_QUIET)
file(REMOVE ${fh_script_file}.o)
string(REGEX REPLACE "^.*======\n(.*)\n======.*$" "\\1" fh_script "${fh_script}")
set(fh_text_begins "[ \t]*\\.text[ \t]*:[ \t]*\n[ \t]*{[ \t]*\n")
if(fh_script MATCHES "${fh_text_begins}")
  set(fh_begin "${CMAKE_MATCH_0}")
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/order.txt fh_names REGEX "^[A-Za-z_]")
  string(CONCAT fh_first "  .rodata.first : { *(.rodata.first .rodata.str1.1 .rodata.cst*) }\n${fh_begin}"
    "    *libgcc.a:(.text .text.*)\n")
  foreach(name IN LISTS fh_names)
    set(fh_kinds . .startup. .exit.)
    if(NOT name MATCHES "\\.hot$")
      list(APPEND fh_kinds .unlikely.)
    endif()
    string(REGEX REPLACE "\\..*" "" name ${name})
    foreach(kind IN LISTS fh_kinds)
      string(APPEND fh_first "    *(.text${kind}${name} .text${kind}${name}.*)\n")
    endforeach()
  endforeach()
  string(REPLACE "${fh_begin}" "${fh_first}" fh_script "${fh_script}")
  string(REPLACE "*(.bss .bss." "*(.bss .bss.first) *(.bss." fh_script "${fh_script}")
  set(fh_order ${fh_script_file})
  file(GENERATE OUTPUT ${fh_order} CONTENT "${fh_script}")
  list(APPEND fh_link_flags -Wl,-T,${fh_order})
endif()
