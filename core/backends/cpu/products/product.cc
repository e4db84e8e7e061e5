#include "core/backends/cpu/products/product.h"

#include <array>

#include "core/backends/cpu/products/packing.h"

namespace latentd::backends::cpu {
namespace {

constexpr int kResidual = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

std::shared_ptr<Primitive> PrimitiveOf(const BinderArguments& a, const Product& p) {
  std::vector<std::pair<int, dnnl::memory::desc>> arguments = {
      {DNNL_ARG_SRC, p.source},
      {DNNL_ARG_WEIGHTS, p.weight},
      {DNNL_ARG_DST, p.result},
      {DNNL_ARG_SCRATCHPAD, p.scratchpad},
  };
  if (a.operand(2).present()) arguments.emplace_back(DNNL_ARG_BIAS, p.bias);
  if (a.operand(3).present()) arguments.emplace_back(kResidual, p.result);
  return std::make_shared<Primitive>(p.primitive, arguments);
}

}  // namespace

BoundKernel BindProduct(const BinderArguments& a, const Product& p) {
  BoundKernel kernel;
  kernel.workspace_bytes = p.scratchpad.get_size();
  if (a.weight_is_held())
    kernel.packing = FormatFor(p.name, a.operand(1).dtype, p.plain_weight, p.weight);
  kernel.run = [x = a.operand(0), weight = a.operand(1), bias = a.operand(2),
                residual = a.operand(3), y = a.result(),
                primitive = PrimitiveOf(a, p)](const Frame& f) {
    std::array<const void*, 6> addresses = {BytesOf(x, f),
                                            f.packed != nullptr ? f.packed : BytesOf(weight, f),
                                            BytesOf(y, f), f.workspace};
    size_t count = 4;
    if (bias.present()) addresses[count++] = AddressOf<float>(bias, f);
    if (residual.present()) addresses[count++] = BytesOf(residual, f);
    primitive->Run({addresses.data(), count});
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
