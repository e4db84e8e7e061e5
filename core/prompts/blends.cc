#include "core/prompts/blends.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "absl/algorithm/container.h"

namespace latentd::prompts {
namespace {

// Compel's, for which the tangent is no infinity.
constexpr double kLeastWeight = 1e-5;

// Tokens of one piece of a weight below 1, in one chunk.
struct Fragment {
  int piece = kNoPiece;
  double counts = 0;          // weight of its state in the mean
  size_t begin = 0, end = 0;  // places in the chunk
};

using Fragments = std::vector<Fragment>;

double CountsAt(double weight) {
  return std::tan((1 - std::max(weight, kLeastWeight)) * std::numbers::pi / 2);
}

Fragments FragmentsOf(const Chunk& chunk) {
  Fragments fragments;
  for (size_t place = 0; place < chunk.ids.size(); ++place) {
    if (chunk.weights[place] >= 1) continue;
    if (fragments.empty() || fragments.back().piece != chunk.pieces[place]) {
      fragments.push_back({chunk.pieces[place], CountsAt(chunk.weights[place]), place});
    }
    fragments.back().end = place + 1;
  }
  return fragments;
}

// The piece that goes on behind the chunk.
int PieceBehind(const Chunks& chunks, size_t chunk) {
  constexpr size_t kFirstToken = 1;
  const bool is_last = chunk + 1 == chunks.chunks.size();
  return is_last ? chunks.cut_piece : chunks.chunks[chunk + 1].pieces[kFirstToken];
}

// Compel seeks a piece's end behind the chunk, past end token and padding. The chunk's last place
// stays, but where the rest is dropped; a piece of the whole chunk is cut before it is sought.
size_t EndOf(const Fragment& fragment, const Chunks& chunks, size_t chunk, LongPrompt long_prompt) {
  if (PieceBehind(chunks, chunk) != fragment.piece) return fragment.end;
  const size_t length = chunks.chunks[chunk].ids.size();
  if (long_prompt == LongPrompt::kChunk) return length - 1;
  return fragment.begin == 1 ? fragment.end : length;
}

}  // namespace

std::vector<std::vector<Blend>> BlendsOf(const Chunks& chunks, LongPrompt long_prompt) {
  std::vector<Fragments> found;
  std::map<int, double> counts;  // by piece
  for (const Chunk& chunk : chunks.chunks) {
    found.push_back(FragmentsOf(chunk));
    for (const Fragment& one : found.back()) counts[one.piece] = one.counts;
  }
  std::vector<std::vector<Blend>> blends(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // The state without a piece that the chunk has not is that of the chunk as it is.
    double before = 1;
    for (const auto& [piece, count] : counts) {
      const auto is_its = [piece](const Fragment& one) { return one.piece == piece; };
      if (absl::c_none_of(found[i], is_its)) before += count;
    }
    for (const Fragment& one : found[i]) {
      before += one.counts;
      blends[i].push_back({one.begin, EndOf(one, chunks, i, long_prompt), one.counts / before});
    }
  }
  return blends;
}

}  // namespace latentd::prompts
