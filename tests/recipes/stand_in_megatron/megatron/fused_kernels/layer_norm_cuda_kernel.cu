#ifndef __HIP_PLATFORM_HCC__
template<typename U> U rsqrt(U v) {
#else
template<typename U> __device__ U rsqrt(U v) {
#endif
  return U(1) / sqrt(v);
}
