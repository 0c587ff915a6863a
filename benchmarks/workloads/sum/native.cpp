#include <algorithm>
#include <cstdint>
extern "C" double total(const float *x, int64_t n) {
  constexpr int64_t block = 8192;  // short enough for single precision within a block
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int64_t first = 0; first < n; first += block) {
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t i = first; i < std::min(n, first + block); i++) part += x[i];
    sum += part;
  }
  return sum;
}
