// Control networks that a request draws with. Plain data.
#pragma once

#include <optional>
#include <string>

namespace latentd::pipeline {

// A ControlNet of a request, with the image that it reads (Inputs::control_images).
struct Control {
  std::string name;  // an adapter's
  // diffusers' controlnet_conditioning_scale: a factor of all that the net adds; 1.
  std::optional<double> scale;
  // diffusers' control_guidance_start and control_guidance_end: of n evaluations the net takes part
  // in number i, from 0 on, if start <= i / n and (i + 1) / n <= end; 0 and 1.
  std::optional<double> start, end;
  // diffusers' control_mode: the type of the map (control_modes.h), of a ControlNet-Union and no
  // other net.
  std::optional<int> mode = {};
  // The stamp and the digest of the file that the request was resolved for; Pipeline::Resolve sets
  // them.
  std::string stamp = {}, digest = {};

  bool operator==(const Control&) const = default;
};

}  // namespace latentd::pipeline
