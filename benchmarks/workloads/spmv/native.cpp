#include <cstdint>
extern "C" void multiply(const int64_t *start, const int32_t *column, const float *value, const float *x, float *y,
                         int64_t rows) {
#pragma omp parallel for schedule(dynamic, 2048)
  for (int64_t row = 0; row < rows; row++) {
    float total = 0;
    for (int64_t k = start[row]; k < start[row + 1]; k++) total += value[k] * x[column[k]];
    y[row] = total;
  }
}
