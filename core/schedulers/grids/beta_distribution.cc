#include "core/schedulers/grids/beta_distribution.h"

#include <cmath>
#include <limits>

namespace latentd::schedulers {
namespace {

constexpr int kMaxTerms = 500;

// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
// Converges fast for x < (a + 1) / (a + b + 2).
double ContinuedFraction(double x, double a, double b) {
  constexpr double kTiny = std::numeric_limits<double>::min();
  double c = 1;
  double d = 0;
  double fraction = 1;
  for (int term = 0; term < kMaxTerms; ++term) {
    const int m = term / 2;
    double numerator = 1;
    if (term > 0 && term % 2 == 0) {
      numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    } else if (term > 0) {
      numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    }
    d = 1 + numerator * d;
    d = 1 / (std::abs(d) < kTiny ? kTiny : d);
    c = 1 + numerator / c;
    if (std::abs(c) < kTiny) c = kTiny;
    fraction *= c * d;
    if (std::abs(1 - c * d) < std::numeric_limits<double>::epsilon()) break;
  }
  return fraction - 1;
}

// The share of the distribution below x.
double Share(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::pow(x, a) * std::pow(1 - x, b) * std::tgamma(a + b) / (std::tgamma(a) * std::tgamma(b));
  if (x < (a + 1) / (a + b + 2)) return front * ContinuedFraction(x, a, b) / a;
  return 1 - front * ContinuedFraction(1 - x, b, a) / b;
}

}  // namespace

double BetaQuantile(double probability, double a, double b) {
  if (probability <= 0) return 0;
  if (probability >= 1) return 1;
  double low = 0;
  double high = 1;
  for (double middle = 0.5; low < middle && middle < high; middle = (low + high) / 2) {
    (Share(middle, a, b) < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace latentd::schedulers
