// VP9, through libvpx: the frames of a video to those of a WebM.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::image {

// A video whose frames are planes of bytes, one behind the other: luma, then blue and red of half
// its sides (rounded up), in BT.601 of limited range.
struct Vp9Video {
  int width = 0;  // pixels
  int height = 0;
  uint32_t rate = 1;  // frames in `seconds`
  uint32_t seconds = 1;
  int quality = 90;         // 1 to 100, the best
  int key_frame_every = 1;  // frames at most from one that needs no other to the next
};

struct Vp9Frame {
  bool is_key = false;  // needs no other frame
  std::string bytes;
};

// One for each frame of `planes`, in their order: profile 0, at no coarser a quantizer than that of
// `quality`, whatever size results; libvpx takes finer ones for key frames and for some of those
// between, which others build upon. On the calling thread; the same planes give the same bytes, on
// one kind of processor.
//
// RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: libvpx would find no memory (MemoryRoom), or found
// none. INTERNAL: another error of its. Errors of `before_frame`, which is called before each
// frame. Throws std::bad_alloc. REQUIRES: `planes` has whole frames, at least one.
absl::StatusOr<std::vector<Vp9Frame>> EncodeVp9(const Vp9Video& video, absl::string_view planes,
                                                absl::FunctionRef<absl::Status()> before_frame);

}  // namespace latentd::image
