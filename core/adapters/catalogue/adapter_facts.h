// Facts of an adapter from what its files say.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "core/adapters/lora/lora.h"
#include "core/adapters/lora/lora_reader.h"
#include "core/pipeline/spec/request/adapter.h"
#include "core/weights/stored_tensor.h"

namespace latentd::adapters {

// Texts of its metadata.
void AddMetadata(const LoraFile& file, pipeline::AdapterFacts& facts);

// The same of a LoRA that was read, with what it changes.
void AddFacts(const Lora& lora, pipeline::AdapterFacts& facts);

// Wishes of its operator in a file beside it, as stable-diffusion-webui keeps them: a JSON object
// with "activation text" and "preferred weight", and "preset" of ours, which is taken as it is.
// Passes over what is not of this form.
void AddSaid(const std::string& text, pipeline::AdapterFacts& facts);

// Digest of all that the file holds: names, types, shapes and contents of tensors, and metadata.
// Reads what has no digest yet.
std::string DigestOf(const LoraFile& file);

// The same of an IP-Adapter's image encoder: its tensors and its configuration.
std::string DigestOfEncoder(const weights::TensorMap& tensors, const std::string& config);

// Digest of both together, the IP-Adapter's own file and the encoder that it reads.
std::string DigestOfBoth(const std::string& own, const std::string& encoder);

// Bytes of its tensors.
int64_t BytesOf(const LoraFile& file);

}  // namespace latentd::adapters
