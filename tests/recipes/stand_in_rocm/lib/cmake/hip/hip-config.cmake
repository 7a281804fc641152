# Stands in for the configuration of ROCm's package 'hip', which has no hip_add_library.
set(hip_FOUND TRUE)
set(HIP_COMPILER clang)
