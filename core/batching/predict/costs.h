// Predicted times of units on this device, learned from measured ones.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

class Costs {
 public:
  // A unit took this; an evaluation computed that many rows, text took the time of that many
  // plain prompts (Ahead::Stage::text), and a decode had that many frames (OtherUnit::rows).
  void Measure(UnitKind kind, const Lane& lane, int rows, absl::Duration took);

  // Time of an evaluation, in the mean of such a part of shallow ones and of others.
  absl::Duration OfStep(const Lane& lane, int rows, double shallow_part) const;
  // Time of a unit, of that many rows likewise; an evaluation, computed with the least number of
  // rows that has been measured and is enough. Where none has: by the pixels and rows of the one
  // that comes nearest; where no shallow one has, those that are not. Zero: unknown.
  absl::Duration Of(UnitKind kind, const Lane& lane, int rows = 1) const;
  // Time of units of a picture, none of them an evaluation, in the stage that it is in.
  absl::Duration Of(absl::Span<const OtherUnit> units, const Ahead& ahead) const;

  // How many of the first of pictures, whose next evaluations in the lane take these rows, are best
  // evaluated together: more only where that makes a row cheaper by a tenth. One at least, and of
  // several no more than `limit` rows.
  int CountThatPays(const Lane& lane, absl::Span<const int> rows, int limit) const;

  // True if the picture's steps have been measured, at its size, often enough to trust.
  bool HasMeasured(const Ahead& ahead) const;

  // Remaining time of a picture, if no other shares its steps.
  absl::Duration Alone(const Ahead& ahead) const;
  // Device time charged to it if others take part in its steps, up to so many evaluated rows.
  absl::Duration Shared(const Ahead& ahead, int evaluated) const;

 private:
  // Prompts are as long at every size; what the VAE does is the same for each UNet, but a VAE of
  // videos is its network's own.
  struct Shape {
    Shape(UnitKind kind, const Lane& lane, int rows);
    // Amount of work, with which a unit's time grows.
    double work() const { return static_cast<double>(pixels) * rows; }

    UnitKind kind;
    int network = 0;
    bool shallow = false;
    int64_t pixels = 1;  // an evaluation has those of all frames
    int rows = 1;

    bool operator==(const Shape&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Shape& shape) {
      return H::combine(std::move(h), shape.kind, shape.network, shape.shallow, shape.pixels,
                        shape.rows);
    }
  };
  // Sizes are the clients' choice; when it knows that many it forgets them.
  static constexpr size_t kMostShapes = 256;

  struct Time {
    absl::Duration time;
    int measured = 0;  // times
  };
  // The measured shape that comes nearest to one that is not, and how many times as long that
  // takes.
  struct Guess {
    Shape from;
    double times = 1;
  };
  using Guesses = absl::flat_hash_map<Shape, std::optional<Guess>>;

  absl::Duration Left(const Ahead& ahead,
                      absl::FunctionRef<absl::Duration(const Lane& lane, int rows)> step) const;
  bool HasMeasuredStep(const Lane& lane, int rows) const;
  const std::optional<Guess>& GuessOf(const Shape& wanted) const;
  std::optional<Guess> FindGuess(const Shape& wanted) const;

  absl::flat_hash_map<Shape, Time> times_;
  mutable Guesses guesses_;  // derived from times_: a forecast asks for the same ones again
};

}  // namespace latentd::batching
