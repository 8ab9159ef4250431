# cmake -DSOURCE=... -DOUTPUT=... -P commit.cmake: writes the header that says which source a build is of, if it says
# something new. Without git or a repository: "unknown", null.
set(commit unknown)
set(modified null)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE failed ERROR_QUIET)
if(failed STREQUAL "0")
  set(commit ${head})
  execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD RESULT_VARIABLE differs ERROR_QUIET)
  if(differs STREQUAL "0")
    set(modified false)
  elseif(differs STREQUAL "1")
    set(modified true)
  endif()
endif()
configure_file(${SOURCE}/support/commit.h.in ${OUTPUT} @ONLY)
