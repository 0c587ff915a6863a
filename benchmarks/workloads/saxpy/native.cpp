#include <cstdint>
extern "C" void saxpy(float *y, float a, const float *x, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}
