#include <cmath>
#include <cstdint>
// Sine and cosine of one number in one loop become a call that g++ has no vector form for: they get loops of their own.
constexpr int lanes = 16;
static void sines(const float *x, float *s, float *c) {
#pragma omp simd
  for (int k = 0; k < lanes; k++) s[k] = std::sin(x[k]);
  asm volatile("" ::: "memory");
#pragma omp simd
  for (int k = 0; k < lanes; k++) c[k] = std::cos(x[k]);
}
extern "C" void place(const float *mean, const float *eccentricity, float *angle, float *distance, int64_t n,
                      int64_t steps) {
#pragma omp parallel for
  for (int64_t first = 0; first < n - n % lanes; first += lanes) {
    const float *m = mean + first, *ecc = eccentricity + first;
    float e[lanes], s[lanes], c[lanes];
    sines(m, s, c);
    for (int k = 0; k < lanes; k++) e[k] = m[k] + ecc[k] * s[k];
    for (int64_t step = 0; step < steps; step++) {
      sines(e, s, c);
      for (int k = 0; k < lanes; k++) e[k] -= (e[k] - ecc[k] * s[k] - m[k]) / (1 - ecc[k] * c[k]);
    }
    sines(e, s, c);
#pragma omp simd
    for (int k = 0; k < lanes; k++) {
      angle[first + k] = std::atan2(std::sqrt(1 - ecc[k] * ecc[k]) * s[k], c[k] - ecc[k]);
      distance[first + k] = 1 - ecc[k] * c[k];
    }
  }
  for (int64_t i = n - n % lanes; i < n; i++) {
    float e = mean[i] + eccentricity[i] * std::sin(mean[i]);
    for (int64_t step = 0; step < steps; step++)
      e -= (e - eccentricity[i] * std::sin(e) - mean[i]) / (1 - eccentricity[i] * std::cos(e));
    float s = std::sin(e), c = std::cos(e);
    angle[i] = std::atan2(std::sqrt(1 - eccentricity[i] * eccentricity[i]) * s, c - eccentricity[i]);
    distance[i] = 1 - eccentricity[i] * c;
  }
}
