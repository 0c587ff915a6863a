#include <algorithm>
#include <cstdint>
extern "C" void filtered(const float *image, const float *weights, float *out, int64_t size, int64_t width) {
  const int64_t side = size + width - 1;
  constexpr int64_t tile = 64;  // sums in registers
#pragma omp parallel for
  for (int64_t i = 0; i < size; i++)
    for (int64_t first = 0; first < size; first += tile) {
      const int64_t count = std::min(tile, size - first);
      float sums[tile] = {};
      for (int64_t a = 0; a < width; a++)
        for (int64_t b = 0; b < width; b++) {
          const float *row = image + (i + a) * side + first + b;
          const float w = weights[a * width + b];
          if (count == tile)
#pragma omp simd
            for (int64_t j = 0; j < tile; j++) sums[j] += row[j] * w;
          else
            for (int64_t j = 0; j < count; j++) sums[j] += row[j] * w;
        }
      std::copy(sums, sums + count, out + i * size + first);
    }
}
