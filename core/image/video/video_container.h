// A format of videos, as the writer of a file (video_file.h) sees it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/before_frame.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// The format of one video's file, whose size, number of frames and speed it was made for. It keeps
// nothing of a file, so that a call that fails leaves nothing behind in it. Thread-safe. Methods
// throw std::bad_alloc.
class VideoContainer {
 public:
  virtual ~VideoContainer() = default;

  // The most bytes that a file may have before End.
  virtual uint64_t MostBytes() const { return std::numeric_limits<uint64_t>::max(); }

  // True if no byte of a file changes once it is there: what has been added may leave before the
  // rest has come.
  virtual bool IsFinalAsAdded() const = 0;

  // REQUIRES: `file` is empty. Of a format whose bytes are final as they are added, the others may
  // find in `file` a later part of it alone.
  virtual void Begin(std::string& file) const = 0;

  // One frame's pixels as the format has them, wherever in the video it is. REQUIRES: its size is
  // the video's.
  virtual absl::StatusOr<std::string> Encode(const Image& frame) const = 0;

  // Puts an encoded frame behind those before it, which are `number`.
  virtual void Append(int number, absl::string_view encoded, std::string& file) const = 0;

  // REQUIRES: `file` has all frames. `before_frame` is called before each that is encoded only
  // here, on this thread. After an error, which may be its, or std::bad_alloc the bytes so far are
  // as they were, whatever is behind them.
  virtual absl::Status End(std::string& file, BeforeFrame before_frame) const = 0;
};

}  // namespace latentd::image
