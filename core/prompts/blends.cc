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
struct LightPart {
  int piece = kNoPiece;
  double counts = 0;          // weight of its state in the mean
  size_t begin = 0, end = 0;  // places in the chunk
};

using LightParts = std::vector<LightPart>;

double CountsAt(double weight) {
  return std::tan((1 - std::max(weight, kLeastWeight)) * std::numbers::pi / 2);
}

LightParts LightPartsOf(const Chunk& chunk) {
  LightParts parts;
  for (size_t place = 0; place < chunk.ids.size(); ++place) {
    if (chunk.weights[place] >= 1) continue;
    if (parts.empty() || parts.back().piece != chunk.pieces[place]) {
      parts.push_back({chunk.pieces[place], CountsAt(chunk.weights[place]), place});
    }
    parts.back().end = place + 1;
  }
  return parts;
}

// The piece that goes on behind the chunk.
int PieceBehind(const Chunks& chunks, size_t chunk) {
  constexpr size_t kFirstToken = 1;
  const bool is_last = chunk + 1 == chunks.chunks.size();
  return is_last ? chunks.cut_piece : chunks.chunks[chunk + 1].pieces[kFirstToken];
}

// Compel seeks a piece's end behind the chunk, past end token and padding. The chunk's last place
// stays, but where the rest is dropped; a piece of the whole chunk is cut before it is sought.
size_t EndOf(const LightPart& part, const Chunks& chunks, size_t chunk, LongPrompt long_prompt) {
  if (PieceBehind(chunks, chunk) != part.piece) return part.end;
  const size_t length = chunks.chunks[chunk].ids.size();
  if (long_prompt == LongPrompt::kChunk) return length - 1;
  return part.begin == 1 ? part.end : length;
}

}  // namespace

std::vector<std::vector<Blend>> BlendsOf(const Chunks& chunks, LongPrompt long_prompt) {
  std::vector<LightParts> found;
  std::map<int, double> counts;  // by piece
  for (const Chunk& chunk : chunks.chunks) {
    found.push_back(LightPartsOf(chunk));
    for (const LightPart& one : found.back()) counts[one.piece] = one.counts;
  }
  std::vector<std::vector<Blend>> blends(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // The state without a piece that the chunk has not is that of the chunk as it is.
    double before = 1;
    for (const auto& [piece, count] : counts) {
      const auto is_its = [piece](const LightPart& one) { return one.piece == piece; };
      if (absl::c_none_of(found[i], is_its)) before += count;
    }
    for (const LightPart& one : found[i]) {
      before += one.counts;
      blends[i].push_back({one.begin, EndOf(one, chunks, i, long_prompt), one.counts / before});
    }
  }
  return blends;
}

}  // namespace latentd::prompts
