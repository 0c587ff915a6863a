#include <cstdint>
extern "C" void steps(float *__restrict u, float *__restrict v, int64_t n, int64_t count, float rate) {
  for (int64_t step = 0; step < count; step++) {
    float *__restrict from = step % 2 ? v : u, *__restrict to = step % 2 ? u : v;
#pragma omp parallel for
    for (int64_t i = 1; i < n - 1; i++)
      for (int64_t j = 1; j < n - 1; j++) {
        const float *c = from + (i * n + j) * n;
        float *out = to + (i * n + j) * n;
#pragma omp simd
        for (int64_t k = 1; k < n - 1; k++)
          out[k] = c[k] + rate * (c[k - n * n] + c[k + n * n] + c[k - n] + c[k + n] + c[k - 1] + c[k + 1] - 6 * c[k]);
      }
  }
}
