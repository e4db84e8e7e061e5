#include "tests/core/backends/cuda/attention_values.h"

#include <algorithm>
#include <cmath>

namespace latentd::backends::cuda::kernels {
namespace {

// The weights of a query's keys, at most 1.
Values WeightsOf(const AttentionCase& s, const AttentionOperands& o, int64_t row, int64_t head,
                 int64_t query) {
  Values weights(s.causal ? std::min(query + 1, s.keys) : s.keys);
  for (size_t i = 0; i < weights.size(); ++i) {
    for (int64_t e = head * s.size; e < (head + 1) * s.size; ++e) {
      weights[i] += o.query_strides.at(o.query, row, s.queries, query, e) *
                    o.key_strides.at(o.key, row, s.keys, static_cast<int64_t>(i), e);
    }
    weights[i] *= s.scale;
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  for (double& weight : weights) weight = std::exp(weight - largest);
  return weights;
}

}  // namespace

AttentionOperands RandomOperands(Element element, const AttentionCase& s) {
  const int64_t channels = s.heads * s.size;
  AttentionOperands o;
  o.query = Rounded(element, Normal(s.rows * s.queries * channels, 1));
  o.key = Rounded(element, Normal(s.rows * s.keys * 2 * channels, 2));
  o.value = o.key;
  o.query_strides = {channels, 0};
  o.key_strides = {2 * channels, 0};
  o.value_strides = {2 * channels, channels};
  return o;
}

AttentionArgs ArgsOf(Element element, const AttentionCase& s, const GpuArray& query,
                     const GpuArray& both, const GpuArray& result) {
  const int64_t channels = s.heads * s.size;
  AttentionArgs args;
  args.element = element;
  args.query = {query.data(), s.queries * channels, channels};
  args.key = {both.data(), s.keys * 2 * channels, 2 * channels};
  args.value = {both.as<char>() + channels * 2, s.keys * 2 * channels, 2 * channels};
  args.result = result.data();
  args.rows = s.rows;
  args.heads = s.heads;
  args.queries = s.queries;
  args.keys = s.keys;
  args.size = s.size;
  args.scale = s.scale;
  args.causal = s.causal;
  return args;
}

Values AttentionOf(const AttentionCase& s, const AttentionOperands& o,
                   std::optional<Element> weights_element) {
  Values result;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t query = 0; query < s.queries; ++query) {
      for (int64_t head = 0; head < s.heads; ++head) {
        const Values weights = WeightsOf(s, o, row, head, query);
        const Values rounded = weights_element ? Rounded(*weights_element, weights) : weights;
        double sum = 0;
        for (double weight : weights) sum += weight;
        for (int64_t e = head * s.size; e < (head + 1) * s.size; ++e) {
          double mixed = 0;
          for (size_t i = 0; i < weights.size(); ++i) {
            mixed +=
                rounded[i] * o.value_strides.at(o.value, row, s.keys, static_cast<int64_t>(i), e);
          }
          result.push_back(mixed / sum);
        }
      }
    }
  }
  return result;
}

}  // namespace latentd::backends::cuda::kernels
