# In a build with FH_SANITIZE (./dev sanitize): what runs in a process whose malloc is a sanitizer's, which is the unit
# tests, and system tests that call the library by its fh_* names alone (named.h). Left out: new and delete, glibc's
# other names, libc's own calls, and what the runtimes cannot bear (below).

# The library with no global name but fh_*.
set(fh_named ${CMAKE_BINARY_DIR}/freehold-named.o)
add_custom_command(OUTPUT ${fh_named} DEPENDS freehold_one $<TARGET_OBJECTS:freehold_one> VERBATIM
  COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=fh_*" $<TARGET_OBJECTS:freehold_one> ${fh_named})
add_custom_target(sanitized DEPENDS unit_tests ${fh_named})
set_source_files_properties(${fh_named} PROPERTIES EXTERNAL_OBJECT TRUE)

# fh_named_test(NAME ARGUMENT...)
function(fh_named_test name)
  fh_program(${name}.named ${name}.c ${fh_named})
  target_compile_options(${name}.named PRIVATE -include ${CMAKE_CURRENT_SOURCE_DIR}/named.h)
  add_dependencies(sanitized ${name}.named)
  fh_run(${name}.named "" ${name}.named ${ARGN})
endfunction()

# Not: what measures the memory of the process, most of which is the sanitizer's; ten thousand threads at once, and
# threads that end by the bare system call or allocate in the last round of destructors: the runtimes end or hang there.
fh_named_test(threads_test --filter ended_is_used_again --filter first_call --filter smallest_stack --filter exchanged
  --filter only_frees --filter generations)
# ThreadSanitizer knows no threads in a child of a process that had some, and puts handlers off until the next atomic
# operation or system call.
if(FH_SANITIZE MATCHES thread)
  fh_named_test(fork_test --filter thirty_two --filter twenty_generations --filter atfork)
else()
  fh_named_test(fork_test)
  fh_named_test(signals_test)
endif()
