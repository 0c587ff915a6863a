#include <cstdint>
#include <utility>
extern "C" void sweeps(float *__restrict u, float *__restrict v, int64_t n, int64_t count) {
  for (int64_t sweep = 0; sweep < count; sweep++) {
    float *__restrict from = sweep % 2 ? v : u, *__restrict to = sweep % 2 ? u : v;
#pragma omp parallel for
    for (int64_t i = 1; i < n - 1; i++)
#pragma omp simd
      for (int64_t j = 1; j < n - 1; j++)
        to[i * n + j] = 0.25f * (from[(i - 1) * n + j] + from[(i + 1) * n + j] + from[i * n + j - 1] + from[i * n + j + 1]);
  }
}
