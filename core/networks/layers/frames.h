// Frames of clips, as layers over time read them.
//
// A clip of `frames` frames is that many consecutive images in dimension 0: n clips are images
// [n * frames, c, h, w], or tokens [n * frames, tokens, c]. All that moves pixels here is a reshape
// between permutes of images to channels-last and back, which only name another form of the same
// memory once images are channels-last (core/passes/image_layout.h); but for tracks, which move.
#pragma once

#include "core/networks/layers/layers.h"

namespace latentd::networks {

// Images [n * frames, c, h, w] -> columns [n, c, frames, h * w]: images whose height is time and
// whose columns are pixels. REQUIRES: frames divides dimension 0. And back.
Value ImagesToColumns(GraphBuilder& builder, Value images, int64_t frames);
Value ColumnsToImages(GraphBuilder& builder, Value columns, int64_t height, int64_t width);

// Tokens [n * frames, tokens, c] -> tracks [n * tokens, frames, c], of which each is one token's
// over time. And back, for tracks of so many tokens a frame.
Value TokensToTracks(GraphBuilder& builder, Value tokens, int64_t frames);
Value TracksToTokens(GraphBuilder& builder, Value tracks, int64_t tokens);

// [n, features] -> [n * frames, features]: each clip's as often as it has frames.
Value RepeatOverFrames(GraphBuilder& builder, Value of_clips, int64_t frames);

// A convolution of columns over three frames, with frames of zeros before the first and after the
// last: that of torch's Conv3d with the kernel (3, 1, 1). Its weights are multiplied by `factor`, a
// [1] made of weights, unless that is kNone.
Value ConvolutionOverFrames(const Scope& scope, Value columns, int64_t out_channels,
                            Value factor = kNone);

// How diffusers' AlphaBlender weighs what layers over time made, beside what layers of each frame
// made: by 1 - sigmoid(mix_factor), or switched, as its AutoencoderKLTemporalDecoder has it.
enum class Mixing : uint8_t { kPlain, kSwitched };

// The share of what layers over time made, [1].
Value ShareOverFrames(const Scope& time_mixer, Mixing mixing);

}  // namespace latentd::networks
