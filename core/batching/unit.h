// The words of batching: what a picture needs next, and what the engine is to run now.
#pragma once

#include <cstdint>
#include <vector>

namespace latentd::batching {

// Names a picture for as long as it is admitted; never used again.
using PictureId = uint64_t;

// Pictures may share an evaluation only within one lane: an id that pipeline makes of network,
// weight set, size and rows.
using Lane = uint64_t;

enum class UnitKind : uint8_t {
  kWait,    // nothing yet: its graphs are being made ready, or a unit of it runs whose end decides
  kText,    // prompts to conditioning, for the stage that comes next
  kEncode,  // init image to latents
  kStep,    // one evaluation of the UNet
  kDecode,  // latents to pixels
  kDone,    // nothing: the picture is finished
};

struct Need {
  UnitKind kind = UnitKind::kText;
  Lane lane = 0;
  int rows = 1;  // of the lane's evaluation

  bool operator==(const Need&) const = default;
};

// One thing to run now, for these pictures together.
struct Unit {
  UnitKind kind = UnitKind::kText;
  Lane lane = 0;
  std::vector<PictureId> pictures;
};

}  // namespace latentd::batching
