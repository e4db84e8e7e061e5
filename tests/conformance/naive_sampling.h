// Ops that images need beside networks, in loops in double precision; for naive.cc.
#pragma once

#include <vector>

#include "tests/conformance/naive.h"

namespace latentd::testing {

using NaiveOperands = std::vector<const Array*>;

Array IsFiniteNaively(const graph::Node& node, const NaiveOperands& x);
Array ClampNaively(const graph::Node& node, const NaiveOperands& x);
Array ToPixelsNaively(const graph::Node& node, const NaiveOperands& x);
Array IncrementNaively(const graph::Node& node, const NaiveOperands& x);
Array SelectNaively(const graph::Node& node, const NaiveOperands& x);
Array SchedulerStepNaively(const graph::Node& node, const NaiveOperands& x);

}  // namespace latentd::testing
