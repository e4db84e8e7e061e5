// The graphs that a command is about, as its user says it: ids as words, the rest as options.
#pragma once

#include <string>
#include <vector>

#include "client/options/arguments.h"
#include "latent/v1/graph_cache.pb.h"

namespace latentd::client {

// --all, --component NAME, --bucket WIDTHxHEIGHT; the latter two may be given several times.
OptionGroup SelectionOptions(::latent::v1::GraphSelector& selector);

// True if it names anything.
bool SelectsAny(const ::latent::v1::GraphSelector& selector);

// Adds the words as ids. INVALID_ARGUMENT where nothing is selected.
absl::Status SelectGraphs(const std::vector<std::string>& ids,
                          ::latent::v1::GraphSelector& selector);

}  // namespace latentd::client
