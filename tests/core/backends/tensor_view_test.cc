#include "core/backends/reference/tensor_view.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "tests/support/status_matchers.h"

namespace latentd::backends::reference {
namespace {

using device::Buffer;
using device::DType;
using device::Shape;

TEST(TensorViewTest, ATensorSeesTheBuffersMemoryAndShape) {
  Buffer buffer = Buffer::Allocate(DType::kF32, {2, 3});
  at::Tensor tensor = View(buffer);
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 3}));
  tensor.data_ptr<float>()[4] = 7;
  EXPECT_EQ(buffer.as<float>()[4], 7);
}

TEST(TensorViewTest, ABufferKeepsItsTensorAlive) {
  at::Tensor tensor = at::arange(6, at::kLong);
  const void* address = tensor.data_ptr();
  const Buffer buffer = ToBuffer(tensor);
  tensor = at::zeros({1});
  EXPECT_EQ(buffer.data(), address);
  EXPECT_EQ(buffer.dtype(), DType::kI64);
  EXPECT_THAT(buffer.as<int64_t>(), ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TensorViewTest, EveryDtypeGoesThereAndBack) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kU8,
                      DType::kF8E4M3, DType::kF8E5M2}) {
    const Buffer buffer = Buffer::Allocate(dtype, {3});
    const at::Tensor tensor = View(buffer);
    EXPECT_EQ(tensor.scalar_type(), ToScalarType(dtype));
    EXPECT_EQ(ToBuffer(tensor).dtype(), dtype) << Name(dtype);
    EXPECT_EQ(tensor.element_size(), SizeOf(dtype)) << Name(dtype);
  }
}

}  // namespace
}  // namespace latentd::backends::reference
