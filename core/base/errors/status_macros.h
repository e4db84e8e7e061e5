// Early return for absl::Status and absl::StatusOr (Debian's Abseil has no status_macros.h yet).
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// RETURN_IF_ERROR(expression): returns the expression's status from this function unless it is OK.
#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status latentd_status = (expression); !latentd_status.ok()) { \
      return latentd_status;                                                \
    }                                                                       \
  } while (false)

// ASSIGN_OR_RETURN(declaration, expression): declares from a StatusOr's value, or returns its
// status.
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_NAMED_(LATENTD_CONCAT_(status_or_, __LINE__), declaration, expression)

#define ASSIGN_OR_RETURN_NAMED_(name, declaration, expression) \
  auto name = (expression);                                    \
  if (!name.ok()) return std::move(name).status();             \
  declaration = *std::move(name)

#define LATENTD_CONCAT_(a, b) LATENTD_CONCAT_INNER_(a, b)
#define LATENTD_CONCAT_INNER_(a, b) a##b
