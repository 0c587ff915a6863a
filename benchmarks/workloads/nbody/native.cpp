#include <cmath>
#include <cstdint>
#include <vector>
extern "C" void accelerate(const float *pos, const float *mass, float *acc, int64_t n, float eps) {
  std::vector<float> columns(3 * n);
  float *x = columns.data(), *y = x + n, *z = y + n;
  for (int64_t i = 0; i < n; i++) x[i] = pos[3 * i], y[i] = pos[3 * i + 1], z[i] = pos[3 * i + 2];
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) {
    float ax = 0, ay = 0, az = 0;
#pragma omp simd reduction(+ : ax, ay, az)
    for (int64_t j = 0; j < n; j++) {
      float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      float d2 = dx * dx + dy * dy + dz * dz + eps * eps, f = mass[j] / (d2 * std::sqrt(d2));
      ax += f * dx, ay += f * dy, az += f * dz;
    }
    acc[3 * i] = ax, acc[3 * i + 1] = ay, acc[3 * i + 2] = az;
  }
}
