// A row port is what a step graph reads or writes for each row of a lane: an input, or an output
// that is written over none. A lane knows what to do with each by its role, and no name.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/device/buffer.h"
#include "core/device/dtype.h"
#include "core/device/shape.h"

namespace latentd::pipeline {

enum class PortRole : uint8_t {
  kState,     // [4, n]: x and the noise scheduler's history
  kStep,      // i64: which line of its table the row is at
  kTable,     // the row's schedule (schedulers::WriteTable)
  kNoise,     // [n]: drawn for the steps that want it
  kFinite,    // u8: 1 where all of the row's state is finite
  kContrast,  // f32: of the outputs for the image's two rows (step_graph.h)
  kResidual,  // sums of what control networks add (control_graph.h); 0 for images without
  kDeep,      // deep features of the row's last full step (step_graph.h)
  kMember,    // i64: the lane's row that is number `member` of the image's, or the last of them
  kValue,     // the image's own (RowValue)
  kPool,      // no row's: memory that lanes share (core/pipeline/lanes/path_pool.h)
};

// The moments at which a lane copies an image's value.
enum class PortRate : uint8_t {
  kJoin,  // when rows become the image's
  kStep,  // and before a step that the image takes in another number of rows than the one before
};

struct RowPort {
  std::string name;
  PortRole role = PortRole::kValue;
  PortRate rate = PortRate::kJoin;
  int member = 0;
  device::DType dtype = device::DType::kF32;
  device::Shape row;  // shape of one row's part

  int64_t row_bytes() const { return row.elements() * device::SizeOf(dtype); }
  device::Shape WithRows(int64_t rows) const {
    std::vector<int64_t> dims = row.dims();
    dims.insert(dims.begin(), rows);
    return device::Shape(std::move(dims));
  }
  bool operator==(const RowPort&) const = default;
};

// An image's value for the port of that name: a number for all of its rows, or a buffer, of which
// the last rows are theirs; where it has fewer, the first row is for those too.
struct RowValue {
  std::string name;
  std::variant<float, device::Buffer> value;
};

// A port's memory in a lane.
struct LanePort : RowPort {
  device::Buffer memory;  // WithRows(rows of the lane)
};

}  // namespace latentd::pipeline
