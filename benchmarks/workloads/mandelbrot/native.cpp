#include <cstdint>
extern "C" void paint(int32_t *count, int64_t height, int64_t width, int64_t limit) {
  constexpr int lanes = 16;
  const float sx = 3.0f / width, sy = 2.0f / height;
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t i = 0; i < height; i++)
    for (int64_t first = 0; first < width; first += lanes) {
      float cx[lanes], cy = i * sy - 1, x[lanes] = {}, y[lanes] = {};
      int32_t steps[lanes] = {}, alive = 1;
      for (int l = 0; l < lanes; l++) cx[l] = (first + l) * sx - 2;
      for (int64_t step = 0; step < limit && alive; step++) {
        alive = 0;
#pragma omp simd reduction(| : alive)
        for (int l = 0; l < lanes; l++) {
          float xx = x[l] * x[l], yy = y[l] * y[l];
          int32_t inside = xx + yy <= 4;
          float nx = xx - yy + cx[l], ny = 2 * x[l] * y[l] + cy;
          x[l] = inside ? nx : x[l], y[l] = inside ? ny : y[l];
          steps[l] += inside, alive |= inside;
        }
      }
      for (int l = 0; l < lanes && first + l < width; l++) count[i * width + first + l] = steps[l];
    }
}
