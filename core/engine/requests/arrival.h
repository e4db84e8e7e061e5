// Conversions between jobs and the queue: a job's arrival, and its prospect for the client.
//
// Pure: for threads that may look at the job.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/batching/predict/unit.h"
#include "core/batching/queue.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/requests/job.h"
#include "core/engine/requests/picture_bytes.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::engine {

batching::Need NeedOf(const pipeline::Picture& picture);
// The same while the picture waits to be begun.
batching::Need WaitingNeedOf(const pipeline::Picture& picture);

// Hash of all that a request asks for, as it was asked for and not as resolved: a seed that the
// server chose is another when the request comes back after a refusal.
uint64_t ContentOf(const GenerateSpec& spec);

// Arrival of a job that holds `image_bytes` while it waits; its pictures wait where there are none.
// REQUIRES: it has its ids. Borrows them.
batching::Arrival ArrivalOf(const Job& job, size_t image_bytes);

// The limits, but for the bytes: requests share the budget of these with what is finished. They
// must outlive the queue.
batching::Limits LimitsOf(batching::Limits limits, const PictureBytes& bytes);

// Sets the queue's prospect of it, for its client.
void SetProspect(const batching::Prospect& prospect, Queued& queued);

}  // namespace latentd::engine
