// The fields of every attribute struct in the order of the text form, so that printer and parser
// cannot disagree: VisitFields(attributes, visitor) calls visitor(name, field) for each.
#pragma once

#include "core/graph/op.h"

namespace latentd::graph {

template <typename Visitor>
void VisitFields(std::monostate&, Visitor&) {}

template <typename Visitor>
void VisitFields(Conv2dAttributes& a, Visitor& visit) {
  visit("stride", a.stride);
  visit("padding", a.padding);
  visit("layout", a.layout);
}

template <typename Visitor>
void VisitFields(AttentionAttributes& a, Visitor& visit) {
  visit("heads", a.heads);
  visit("scale", a.scale);
  visit("causal", a.causal);
}

template <typename Visitor>
void VisitFields(GroupNormAttributes& a, Visitor& visit) {
  visit("groups", a.groups);
  visit("epsilon", a.epsilon);
  visit("layout", a.layout);
}

template <typename Visitor>
void VisitFields(LayerNormAttributes& a, Visitor& visit) {
  visit("epsilon", a.epsilon);
}

template <typename Visitor>
void VisitFields(RowNormAttributes& a, Visitor& visit) {
  visit("euclidean", a.euclidean);
}

template <typename Visitor>
void VisitFields(ClampAttributes& a, Visitor& visit) {
  visit("min", a.min);
  visit("max", a.max);
}

template <typename Visitor>
void VisitFields(CastAttributes& a, Visitor& visit) {
  visit("to", a.to);
}

template <typename Visitor>
void VisitFields(F8LinearAttributes& a, Visitor& visit) {
  visit("to", a.to);
}

template <typename Visitor>
void VisitFields(F8Conv2dAttributes& a, Visitor& visit) {
  visit("stride", a.stride);
  visit("padding", a.padding);
  visit("layout", a.layout);
  visit("to", a.to);
}

template <typename Visitor>
void VisitFields(ConcatAttributes& a, Visitor& visit) {
  visit("axis", a.axis);
}

template <typename Visitor>
void VisitFields(SliceAttributes& a, Visitor& visit) {
  visit("axis", a.axis);
  visit("begin", a.begin);
  visit("end", a.end);
}

template <typename Visitor>
void VisitFields(ReshapeAttributes& a, Visitor& visit) {
  visit("shape", a.shape);
}

template <typename Visitor>
void VisitFields(PermuteAttributes& a, Visitor& visit) {
  visit("order", a.order);
}

template <typename Visitor>
void VisitFields(UpsampleAttributes& a, Visitor& visit) {
  visit("height", a.height);
  visit("width", a.width);
  visit("layout", a.layout);
}

template <typename Visitor>
void VisitFields(TimestepEmbeddingAttributes& a, Visitor& visit) {
  visit("dim", a.dim);
  visit("flip_sin_to_cos", a.flip_sin_to_cos);
  visit("downscale_freq_shift", a.downscale_freq_shift);
}

template <typename Visitor>
void VisitFields(ConstantAttributes& a, Visitor& visit) {
  visit("values", a.values);
}

template <typename Visitor>
void VisitFields(FusedAttributes& a, Visitor& visit) {
  visit("kind", a.kind);
  visit("body", a.body);
}

}  // namespace latentd::graph
