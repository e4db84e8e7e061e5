#include "core/backends/cuda/cuda_executable.h"

#include <algorithm>
#include <utility>

#include "core/backends/cuda/binders/binders.h"
#include "core/backends/ports.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/threads.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/cuda/cuda_stream.h"

namespace latentd::backends::cuda {

using device::cuda::ToStatus;

namespace {

absl::Status CheckAlignment(const device::ConstBuffer& buffer) {
  if (reinterpret_cast<uintptr_t>(buffer.data()) % kPortAlignment == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "memory for a port that does not begin at a multiple of 16 bytes");
}

// With kernels on the stream the run must not be taken for one that has not begun. The first alone
// changes nothing that a run reads.
absl::Status OnceOnly(const absl::Status& launched, size_t kernels) {
  if (!absl::IsResourceExhausted(launched) || kernels == 0) return launched;
  return absl::InternalError(launched.message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaExecutable::Launcher>> CudaExecutable::Launcher::Create() {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
  return std::unique_ptr<Launcher>(new Launcher(stream));
}

CudaExecutable::Launcher::~Launcher() { cudaStreamDestroy(capture_); }

absl::Status CudaExecutable::Launcher::Begin() {
  // Relaxed: a kernel that is met for the first time is loaded meanwhile.
  return ToStatus(cudaStreamBeginCapture(capture_, cudaStreamCaptureModeRelaxed),
                  "beginning a capture");
}

absl::StatusOr<cudaGraphExec_t> CudaExecutable::Launcher::End(const absl::Status& worked) {
  cudaGraph_t graph = nullptr;
  const absl::Status ended = ToStatus(cudaStreamEndCapture(capture_, &graph), "ending a capture");
  cudaGraphExec_t executable = nullptr;
  absl::Status made = !worked.ok() ? worked : ended;
  if (made.ok()) made = ToStatus(cudaGraphInstantiate(&executable, graph, 0), "a captured graph");
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // it has been told
  if (!made.ok()) return made;
  return executable;
}

CudaExecutable::CudaExecutable(Programs::Program program, std::unique_ptr<Arena::Lease> lease,
                               device::cuda::CudaDevice& device, Launcher& launcher)
    : program_(std::move(program)),
      lease_(std::move(lease)),
      device_(device),
      launcher_(launcher),
      info_{.inputs = InputPorts(*program_->graph),
            .outputs = OutputPorts(*program_->graph),
            .arena_bytes = lease_->bytes(),
            .own_bytes = OwnBytes(*program_->graph, program_->bound)},
      updates_(std::any_of(info_.outputs.begin(), info_.outputs.end(),
                           [](const Port& output) { return output.updates >= 0; })),
      addresses_(lowering::AddressesIn(lease_->base(), program_->bound, program_->memory)) {}

absl::StatusOr<std::unique_ptr<CudaExecutable>> CudaExecutable::Create(
    Programs::Program program, std::unique_ptr<Arena::Lease> lease,
    const weights::WeightSet& weights, device::cuda::CudaDevice& device, Launcher& launcher) {
  std::unique_ptr<CudaExecutable> executable(
      new CudaExecutable(std::move(program), std::move(lease), device, launcher));
  const auto address_of = [](const device::ConstBuffer& result) { return result.data(); };
  // Reading a file's pages takes the host longer than the GPU all the rest.
  const int readers = std::min(UsableCpus(), weights::kMostReaders);
  ASSIGN_OR_RETURN(executable->held_,
                   lowering::HoldWeights(executable->program_->bound, weights, readers, address_of,
                                         executable->addresses_));
  for (const auto& held : executable->held_) executable->info_.weights.push_back(held->data());
  RETURN_IF_ERROR(executable->UploadLiterals());
  RETURN_IF_ERROR(executable->StagePorts());
  return executable;
}

absl::Status CudaExecutable::StagePorts() {
  StagedPorts places = PlacePorts(info_.inputs, info_.outputs);
  if (places.bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(staged_, StagedGraph::Allocate(std::move(places), device_));
  return absl::OkStatus();
}

lowering::Addresses CudaExecutable::AddressesWith(absl::Span<char* const> ports) const {
  return WithPorts(addresses_, program(), ports.first(info_.inputs.size()),
                   ports.subspan(info_.inputs.size()));
}

absl::Status CudaExecutable::EnqueueKernels(const lowering::Addresses& addresses,
                                            cudaStream_t stream, size_t& enqueued) const {
  for (enqueued = 0; enqueued < program_->bound.kernels.size(); ++enqueued) {
    RETURN_IF_ERROR(program_->bound.kernels[enqueued]({addresses.FrameOf(enqueued), stream}));
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphPointer> CudaExecutable::Capture(const lowering::Addresses& addresses) {
  const auto capture = [&] {
    return launcher_.Capture([&](cudaStream_t stream) {
      size_t enqueued = 0;
      return EnqueueKernels(addresses, stream, enqueued);
    });
  };
  absl::StatusOr<cudaGraphExec_t> graph = capture();
  if (absl::IsResourceExhausted(graph.status())) {
    device_.Trim();
    graph = capture();
  }
  RETURN_IF_ERROR(graph.status());
  return GraphPointer(*graph, DestroyGraph{&device_});
}

absl::Status CudaExecutable::UploadLiterals() {
  const Literals literals = PlaceLiterals(program());
  if (literals.bytes == 0) return absl::OkStatus();
  const auto bytes = static_cast<int64_t>(literals.bytes);
  ASSIGN_OR_RETURN(literals_,
                   device_.Allocate(device::DType::kU8, {bytes}, device::Place::kDevice));
  ASSIGN_OR_RETURN(const device::Buffer host,
                   device_.Allocate(device::DType::kU8, {bytes}, device::Place::kHost));
  WriteLiterals(program(), literals, reinterpret_cast<char*>(host.as<uint8_t>().data()));
  ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device_.NewStream(SystemClock()));
  RETURN_IF_ERROR(device_.Copy(host, literals_, *stream));
  RETURN_IF_ERROR(stream->Synchronize());
  AddLiterals(static_cast<char*>(literals_.data()), literals, addresses_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Session>> CudaExecutable::Bind(
    absl::Span<const device::ConstBuffer> inputs, absl::Span<const device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckBuffers(info_, device_, inputs, outputs));
  std::vector<char*> ports;
  for (const device::ConstBuffer& input : inputs) {
    RETURN_IF_ERROR(CheckAlignment(input));
    ports.push_back(static_cast<char*>(const_cast<void*>(input.data())));
  }
  for (const device::Buffer& output : outputs) {
    RETURN_IF_ERROR(CheckAlignment(output));
    ports.push_back(static_cast<char*>(output.data()));
  }
  lowering::Addresses addresses = AddressesWith(ports);
  return std::make_unique<CudaSession>(*this, std::move(addresses), std::move(ports));
}

bool CudaExecutable::keeps_graph() const {
  absl::MutexLock lock(&kept_mutex_);
  return kept_.graph != nullptr;
}

void CudaExecutable::Keep(CapturedGraph captured) {
  absl::MutexLock lock(&kept_mutex_);
  std::swap(kept_, captured);
}

CapturedGraph CudaExecutable::TakeKept(std::vector<char*> ports) {
  absl::MutexLock lock(&kept_mutex_);
  CapturedGraph taken{.ports = std::move(ports)};
  if (taken.ports == kept_.ports) taken.graph = std::move(kept_.graph);
  return taken;
}

CudaSession::~CudaSession() {
  if (captured_.graph != nullptr) executable_.Keep(std::move(captured_));
}

absl::Status CudaSession::EnqueueKernels(cudaStream_t stream) const {
  size_t enqueued = 0;
  const absl::Status launched = executable_.launcher_.Enqueue(stream, [&](cudaStream_t on) {
    return executable_.EnqueueKernels(addresses_, on, enqueued);
  });
  return OnceOnly(launched, enqueued);
}

absl::Status CudaSession::EnqueueStaged(StagedGraph& staged, cudaStream_t stream) {
  const bool captured = staged.captured();
  RETURN_IF_ERROR(executable_.lease_->arena().Turn(stream, [&] {
    return captured ? staged.Run(captured_.ports, stream) : EnqueueKernels(stream);
  }));
  if (captured) return absl::OkStatus();
  // While the device runs the kernels. Where it fails, the next run tries again.
  absl::StatusOr<GraphPointer> graph =
      executable_.Capture(executable_.AddressesWith(staged.ports()));
  if (graph.ok()) staged.Set(*std::move(graph));
  return absl::OkStatus();
}

absl::Status CudaSession::Enqueue(device::Stream& stream) {
  RETURN_IF_ERROR(executable_.device_.Select());
  cudaStream_t on = static_cast<device::cuda::CudaStream&>(stream).handle();
  if (executable_.staged_ != nullptr) return EnqueueStaged(*executable_.staged_, on);
  if (ran_ && captured_.graph == nullptr) {
    ASSIGN_OR_RETURN(captured_.graph, executable_.Capture(addresses_));
  }
  RETURN_IF_ERROR(executable_.lease_->arena().Turn(on, [&] {
    return captured_.graph == nullptr
               ? EnqueueKernels(on)
               : ToStatus(cudaGraphLaunch(captured_.graph.get(), on), "launching a graph");
  }));
  const bool is_first = !std::exchange(ran_, true);
  if (!is_first || captured_.graph != nullptr || !executable_.IsRepeated()) return absl::OkStatus();
  // The next run tries again if it fails.
  absl::StatusOr<GraphPointer> graph = executable_.Capture(addresses_);
  if (graph.ok()) captured_.graph = *std::move(graph);
  return absl::OkStatus();
}

absl::Status CudaSession::EnqueueInstruction(size_t index, device::Stream& stream) const {
  cudaStream_t on = static_cast<device::cuda::CudaStream&>(stream).handle();
  return executable_.program_->bound.kernels[index]({addresses_.FrameOf(index), on});
}

}  // namespace latentd::backends::cuda
