#include "core/backends/cuda/trial/trial_packets.h"

#include <bit>
#include <cstdint>

#include "core/base/text/coding.h"

namespace latentd::backends::cuda {
namespace {

// The first byte of a packet.
constexpr char kTask = 't', kAlgorithm = 'a', kChosen = 'c', kFailed = 'f';

void PutString(std::string& bytes, absl::string_view value) {
  PutLittleEndian(bytes, static_cast<uint32_t>(value.size()));
  bytes.append(value.data(), value.size());
}

std::string TakeString(LittleEndianReader& reader) {
  const auto size = reader.Take<uint32_t>();
  return std::string(reader.TakeBytes(size));
}

// Calls `number` with each number of the shape, in a fixed order.
template <typename Shape, typename Number>
void ForEachNumber(Shape& shape, const Number& number) {
  for (auto* value : {&shape.rows, &shape.columns, &shape.depth, &shape.batch}) number(*value);
  for (auto* operand : {&shape.a, &shape.b, &shape.result}) {
    for (auto* value : {&operand->pitch, &operand->step, &operand->alignment}) number(*value);
  }
}

constexpr uint8_t kTransposed = 1, kBias = 2, kResidual = 4, kTf32 = 8;

void PutHead(std::string& packet, char kind, uint32_t number) {
  packet.push_back(kind);
  PutLittleEndian(packet, number);
}

absl::Status NoPacket() { return absl::InvalidArgumentError("a packet that is damaged"); }

absl::StatusOr<Choice> TakeAnswer(char kind, LittleEndianReader& reader) {
  if (kind == kFailed) {
    const auto code = static_cast<absl::StatusCode>(reader.Take<uint32_t>());
    const std::string message = TakeString(reader);
    return code == absl::StatusCode::kOk ? absl::UnknownError(message)
                                         : absl::Status(code, message);
  }
  Choice choice;
  choice.lasting = reader.Take<uint8_t>() != 0;
  if (choice.lasting) choice.work = KernelWork::kTrial;
  choice.bytes = TakeString(reader);
  return choice;
}

}  // namespace

std::string Write(const TrialTask& task) {
  const ProductShape& s = task.shape;
  std::string packet;
  PutHead(packet, kTask, task.number);
  ForEachNumber(s, [&](int64_t value) { PutLittleEndian(packet, static_cast<uint64_t>(value)); });
  for (const auto* operand : {&s.a, &s.b, &s.result}) {
    PutLittleEndian(packet, static_cast<uint8_t>(operand->dtype));
  }
  PutLittleEndian(
      packet, static_cast<uint8_t>((s.b_transposed ? kTransposed : 0) | (s.has_bias ? kBias : 0) |
                                   (s.has_residual ? kResidual : 0) | (s.tf32 ? kTf32 : 0)));
  PutLittleEndian(packet, std::bit_cast<uint32_t>(s.scale));
  PutLittleEndian(packet, static_cast<uint32_t>(task.left_out.size()));
  for (const std::string& algorithm : task.left_out) PutString(packet, algorithm);
  return packet;
}

absl::StatusOr<TrialTask> ReadTask(absl::string_view packet) {
  LittleEndianReader reader(packet);
  if (reader.Take<uint8_t>() != kTask) return NoPacket();
  TrialTask task;
  task.number = reader.Take<uint32_t>();
  ProductShape& s = task.shape;
  ForEachNumber(s, [&](int64_t& value) { value = static_cast<int64_t>(reader.Take<uint64_t>()); });
  for (auto* operand : {&s.a, &s.b, &s.result}) {
    operand->dtype = static_cast<device::DType>(reader.Take<uint8_t>());
  }
  const auto flags = reader.Take<uint8_t>();
  s.b_transposed = (flags & kTransposed) != 0;
  s.has_bias = (flags & kBias) != 0;
  s.has_residual = (flags & kResidual) != 0;
  s.tf32 = (flags & kTf32) != 0;
  s.scale = std::bit_cast<float>(reader.Take<uint32_t>());
  task.left_out.resize(reader.TakeCount(sizeof(uint32_t)));
  for (std::string& algorithm : task.left_out) algorithm = TakeString(reader);
  if (!reader.done()) return NoPacket();
  return task;
}

std::string Write(const TrialReport& report) {
  std::string packet;
  if (!report.answer.has_value()) {
    PutHead(packet, kAlgorithm, report.number);
    PutString(packet, report.algorithm);
  } else if (report.answer->ok()) {
    PutHead(packet, kChosen, report.number);
    PutLittleEndian(packet, static_cast<uint8_t>((*report.answer)->lasting ? 1 : 0));
    PutString(packet, (*report.answer)->bytes);
  } else {
    const absl::Status& failure = report.answer->status();
    PutHead(packet, kFailed, report.number);
    PutLittleEndian(packet, static_cast<uint32_t>(failure.code()));
    PutString(packet, failure.message());
  }
  return packet;
}

absl::StatusOr<TrialReport> ReadReport(absl::string_view packet) {
  LittleEndianReader reader(packet);
  const auto kind = static_cast<char>(reader.Take<uint8_t>());
  TrialReport report;
  report.number = reader.Take<uint32_t>();
  if (kind == kAlgorithm) {
    report.algorithm = TakeString(reader);
  } else if (kind == kChosen || kind == kFailed) {
    report.answer = TakeAnswer(kind, reader);
  } else {
    return NoPacket();
  }
  if (!reader.done()) return NoPacket();
  return report;
}

}  // namespace latentd::backends::cuda
