# Stands in for RCCL's configuration: the folder that it names is the one above rccl/rccl.h.
add_library(roc::rccl SHARED IMPORTED)
set_target_properties(roc::rccl PROPERTIES
    IMPORTED_LOCATION /opt/rocm/lib/librccl.so.1 INTERFACE_INCLUDE_DIRECTORIES /opt/rocm/include)
