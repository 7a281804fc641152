// Put into every file of DeepSpeed's ops that the C++ compiler makes for ROCm: the wave size that its
// kernels are compiled for, as a text that can be read in the library.
#ifndef LUMICONTAINER_WAVE_SIZE
#define LUMICONTAINER_WAVE_SIZE
#ifdef ROCM_WAVEFRONT_SIZE
#define LUMICONTAINER_TEXT(value) #value
#define LUMICONTAINER_VALUE(macro) LUMICONTAINER_TEXT(macro)
__attribute__((used)) static const char lumicontainer_wave_size[] =
    "ROCM_WAVEFRONT_SIZE=" LUMICONTAINER_VALUE(ROCM_WAVEFRONT_SIZE);
#endif
#endif
