// Makes on one device what recipes say: what WeightStore sees of a backend.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/graph/graph.h"

namespace latentd::weights {

// How a result is wanted.
struct WeightFormat {
  // Names how the plain result is packed: all that the packed bytes depend on beside it, and all
  // that the maker needs to know; "": the plain result itself.
  std::string form = {};
  size_t bytes = 0;          // bytes of the result; of no meaning for ""
  size_t scratch_bytes = 0;  // the most that packing takes for a moment, beside plain and packed

  bool operator==(const WeightFormat&) const = default;
};

// Thread-safe.
class WeightMaker {
 public:
  virtual ~WeightMaker() = default;

  // Device on which it makes them. Must outlive it.
  virtual device::Device& device() const = 0;

  // Facts that results depend on beside recipe, sources and form, such as the instruction set.
  virtual std::string WeightFingerprint() const = 0;

  // The most bytes that MakeWeight takes for a moment, beside sources and result, of sources that
  // are all memory of the host. Makes nothing. Depends on the recipe's text, the format and
  // CopiedBytes of the sources alone.
  virtual absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe,
                                             absl::Span<const device::ConstBuffer> host_sources,
                                             const WeightFormat& format) const = 0;

  // Enqueues making the recipe's one output in that form, to `to`: memory of the device of as many
  // bytes, with whatever is in them, all of which are written. `sources` are what the recipe's
  // weights are, in order, of their dtypes and shapes, each of them memory of the host, at any
  // address, or of the device, at a multiple of 16 bytes, whose contents are there. The stream's
  // next event says what came of it, and recipe and memory must live until then. The same bytes
  // each time.
  //
  // RESOURCE_EXHAUSTED: no memory; UNIMPLEMENTED: a form that it does not know, or a recipe that it
  // cannot compute; INTERNAL: `to` or the plain result does not have the form's size.
  virtual absl::Status MakeWeight(const graph::Graph& recipe,
                                  absl::Span<const device::ConstBuffer> sources,
                                  absl::string_view form, const device::Buffer& to,
                                  device::Stream& stream) = 0;
};

}  // namespace latentd::weights
