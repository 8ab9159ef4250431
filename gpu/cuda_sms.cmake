# Which chips gpu/ is compiled for. KVGOLD_CUDA_SMS takes compute capabilities out of the table, or "all".
# CMAKE_CUDA_ARCHITECTURES (or CUDAARCHS in the environment), if it is given, wins: it has CMake's own notation and is
# the way to chips and to PTX that the table does not list. Machine code only: a GPU of another chip is refused by the
# backend in one line, and no kernel runs that nobody has compiled and counted (ci/kernel-report).
set(KVGOLD_CUDA_SMS 90 120 CACHE STRING "Chips to compile gpu/ for: a list of 89 90 100 103 120 121, or all")

# chip, its target, the first CUDA that has the target. a: all of one chip's instructions; f: those that its family
# shares, so that 100f runs on 10.3 too and 120f on 12.1. NVIDIA, "CUDA C++ Programming Guide", feature set compiler targets.
set(KVG_CUDA_SM_TABLE
  "89 89-real 11.8"
  "90 90a-real 12.0"
  "100 100f-real 12.9"
  "103 103a-real 12.9"
  "120 120f-real 12.9"
  "121 121a-real 12.9")

# kvg_cuda_architectures(out sms version): CMake's architectures of `sms`. Stops where CUDA `version` lacks one.
function(kvg_cuda_architectures out sms version)
  set(known)
  foreach(row IN LISTS KVG_CUDA_SM_TABLE)
    separate_arguments(row UNIX_COMMAND "${row}")
    list(GET row 0 sm)
    list(GET row 1 target_${sm})
    list(GET row 2 least_${sm})
    list(APPEND known ${sm})
  endforeach()
  if(sms STREQUAL "all")
    set(sms ${known})
  endif()
  set(chosen)
  set(lacking)
  foreach(sm IN LISTS sms)
    if(NOT sm IN_LIST known)
      list(JOIN known " " known)
      message(FATAL_ERROR " KVGOLD_CUDA_SMS: '${sm}' is none of ${known} all; CMAKE_CUDA_ARCHITECTURES takes any other target")
    endif()
    if(version VERSION_LESS least_${sm})
      list(APPEND lacking "${sm} (needs ${least_${sm}})")
    endif()
    list(APPEND chosen ${target_${sm}})
  endforeach()
  if(lacking)
    list(JOIN lacking ", " lacking)
    message(FATAL_ERROR " KVGOLD_CUDA_SMS: CUDA ${version} lacks ${lacking}: take them off the list or install a newer CUDA")
  endif()
  if(NOT chosen)
    message(FATAL_ERROR " KVGOLD_CUDA_SMS is empty: name the chips to compile for")
  endif()
  set(${out} ${chosen} PARENT_SCOPE)
endfunction()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND "$ENV{CUDAARCHS}" STREQUAL "")
  set(CMAKE_CUDA_ARCHITECTURES OFF) # for the compiler's own check, before its version is known
  enable_language(CUDA)
  kvg_cuda_architectures(CMAKE_CUDA_ARCHITECTURES "${KVGOLD_CUDA_SMS}" ${CMAKE_CUDA_COMPILER_VERSION})
else()
  enable_language(CUDA)
endif()
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION}, kernels for ${CMAKE_CUDA_ARCHITECTURES}")
