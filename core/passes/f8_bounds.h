// Bounds that no input of a network can exceed, from its weights alone, as recipes: what scales of
// 8-bit floats are made of. So there is nothing to be calibrated, weights that were merged have
// their own, and no picture is another beside others.
//
// By the inequality of Cauchy and Schwarz, with C channels (of a group norm's: n elements a group):
//
//   layer norm      |y_c| <= |gamma_c| sqrt(C - 1) + |beta_c|
//   group norm      |y_c| <= |gamma_c| sqrt(n - 1) + |beta_c|, with 1024 for the root: a million
//                   elements a group, more than pictures of any size that is served have
//   linear of a layer norm  |v_o| <= |W_o gamma| sqrt(C) + |W_o . beta + b_o|
//   attention       what its values are bounded by, since it takes means of them
//   GEGLU           |value gate(g)| <= |value| max(|g|, 0.17)
//
// They hold for exact numbers. Those that were rounded before, to 8 bits at most, exceed them by
// less than kSlack in all but contrived cases; what does is as large as the format has numbers.
#pragma once

#include "core/passes/rewrite.h"

namespace latentd::passes {

class F8Bounds {
 public:
  static constexpr float kSlack = 1.25f;

  // Borrows the walk. Values of the checkpoint rate that the new graph does not have yet are copied
  // into it; REQUIRES: the walk copies no value twice.
  explicit F8Bounds(Rewrite& rewrite) : rewrite_(rewrite) {}

  // f32 [], of the new graph: the bound of an old value; none where this does not know one.
  Value Of(ValueId old);

  // f32 []: the largest absolute value of what is f32 and of the checkpoint rate, of the new graph.
  Value Largest(Value value);

  // The f32 that an old value of the checkpoint rate was cast from, of the new graph.
  Value Exact(ValueId old);

 private:
  Value Copied(ValueId old);
  // The value whose elements these are, in another order: attention over frames moves its values.
  ValueId Unmoved(ValueId old) const;
  Value OfNorm(ValueId norm, float root);
  Value OfGeglu(ValueId linear);
  // f32 [out, 1]: bounds of the columns of a linear of a layer norm.
  Value OfColumns(ValueId linear);
  Value Absolute(Value vector);
  Value Times(Value value, float factor);

  Rewrite& rewrite_;
};

}  // namespace latentd::passes
