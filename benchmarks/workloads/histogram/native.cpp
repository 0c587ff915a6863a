#include <cstdint>
#include <cstring>
#include <vector>
extern "C" void count(const int32_t *bins, int32_t *counts, int64_t n, int64_t size) {
  std::memset(counts, 0, size * sizeof *counts);
#pragma omp parallel
  {
    std::vector<int32_t> own(4 * size);  // four copies: equal neighbours do not wait for one another
#pragma omp for nowait
    for (int64_t block = 0; block < n / 4; block++)
      for (int64_t k = 0; k < 4; k++) own[k * size + bins[4 * block + k]]++;
#pragma omp single nowait
    for (int64_t i = n - n % 4; i < n; i++) own[bins[i]]++;
#pragma omp critical
    for (int64_t b = 0; b < size; b++) counts[b] += own[b] + own[size + b] + own[2 * size + b] + own[3 * size + b];
  }
}
