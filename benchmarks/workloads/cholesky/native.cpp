#include <cmath>
#include <cstdint>
// Eight systems side by side: their elements are brought together first.
constexpr int lanes = 8, n = 12;
static void block(const float *matrices, const float *right, float *x, int64_t first, int64_t count) {
  alignas(32) float f[n][n][lanes], y[n][lanes];
  for (int i = 0; i < n; i++)
    for (int l = 0; l < lanes; l++) {
      int64_t e = first + (l < count ? l : 0);
      for (int j = 0; j <= i; j++) f[i][j][l] = matrices[(e * n + i) * n + j];
      y[i][l] = right[e * n + i];
    }
  for (int j = 0; j < n; j++) {
    alignas(32) float inverse[lanes];
    for (int k = 0; k < j; k++)
#pragma omp simd
      for (int l = 0; l < lanes; l++) f[j][j][l] -= f[j][k][l] * f[j][k][l];
#pragma omp simd
    for (int l = 0; l < lanes; l++) inverse[l] = 1 / std::sqrt(f[j][j][l]), f[j][j][l] = inverse[l];
    for (int i = j + 1; i < n; i++) {
      for (int k = 0; k < j; k++)
#pragma omp simd
        for (int l = 0; l < lanes; l++) f[i][j][l] -= f[i][k][l] * f[j][k][l];
#pragma omp simd
      for (int l = 0; l < lanes; l++) f[i][j][l] *= inverse[l];
    }
  }
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++)
#pragma omp simd
      for (int l = 0; l < lanes; l++) y[i][l] -= f[i][k][l] * y[k][l];
#pragma omp simd
    for (int l = 0; l < lanes; l++) y[i][l] *= f[i][i][l];
  }
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++)
#pragma omp simd
      for (int l = 0; l < lanes; l++) y[i][l] -= f[k][i][l] * y[k][l];
#pragma omp simd
    for (int l = 0; l < lanes; l++) y[i][l] *= f[i][i][l];
  }
  for (int l = 0; l < count; l++)
    for (int i = 0; i < n; i++) x[(first + l) * n + i] = y[i][l];
}
extern "C" void solve(const float *matrices, const float *right, float *x, int64_t count) {
#pragma omp parallel for
  for (int64_t first = 0; first < count; first += lanes)
    block(matrices, right, x, first, count - first < lanes ? count - first : lanes);
}
