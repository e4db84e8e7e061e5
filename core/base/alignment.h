// Sizes and addresses in whole units.
//
// Thread-safe: free functions without state.
#pragma once

#include <concepts>
#include <type_traits>

namespace latentd {

// The least multiple of `unit` that is not below `value`. REQUIRES: value >= 0, unit > 0, and the
// result is a T.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace latentd
