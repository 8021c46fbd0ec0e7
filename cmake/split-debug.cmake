# split-debug.cmake - moves the debug information of FILE to .debug/NAME.debug beside it. FILE keeps its names of
# functions, its build id, and the name of that file.
get_filename_component(folder ${FILE} DIRECTORY)
get_filename_component(name ${FILE} NAME)
set(debug .debug/${name}.debug)
file(MAKE_DIRECTORY ${folder}/.debug)
foreach(arguments "--only-keep-debug;${name};${debug}" "--strip-debug;${name}" "--remove-section=.gnu_debuglink;--add-gnu-debuglink=${debug};${name}")
  execute_process(COMMAND ${OBJCOPY} ${arguments} WORKING_DIRECTORY ${folder} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${OBJCOPY} ${arguments} failed")
  endif()
endforeach()
