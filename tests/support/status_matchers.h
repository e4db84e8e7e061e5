// gMock matchers for absl::Status and absl::StatusOr (Debian's Abseil has none yet).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace latentd::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return arg.ok();
}

// StatusIs(absl::StatusCode::kNotFound, HasSubstr("conv_in.weight"))
MATCHER_P2(StatusIs, code, message, "has that code and message") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return ::testing::ExplainMatchResult(code, status.code(), result_listener) &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

}  // namespace latentd::testing

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::latentd::testing::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::latentd::testing::IsOk())

// ASSERT_OK_AND_ASSIGN(declaration, expression): declares from a StatusOr's value, or fails the
// test.
#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_NAMED_(LATENTD_TEST_CONCAT_(status_or_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_NAMED_(name, declaration, expression) \
  auto name = (expression);                                        \
  ASSERT_OK(name);                                                 \
  declaration = *std::move(name)
#define LATENTD_TEST_CONCAT_(a, b) LATENTD_TEST_CONCAT_INNER_(a, b)
#define LATENTD_TEST_CONCAT_INNER_(a, b) a##b
