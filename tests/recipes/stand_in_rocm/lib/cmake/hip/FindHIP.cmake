# Stands in for ROCm's module: hip_add_library writes down how it was called.
set(HIP_FOUND TRUE)
macro(hip_add_library name kind source)
    file(APPEND "$ENV{STAND_IN_RECORD}/hip_add_library.txt"
        "${name} ${kind} ${source} HIP_CLANG_PATH=${HIP_CLANG_PATH} HIP_HIPCC_FLAGS=${HIP_HIPCC_FLAGS}\n")
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cc" "")
    add_library(${name} ${kind} "${CMAKE_CURRENT_BINARY_DIR}/${name}.cc")
endmacro()
