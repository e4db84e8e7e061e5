// Types of maps that a ControlNet-Union tells apart: diffusers' control_mode.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

namespace latentd::pipeline {

// Types of the first nets; those called ProMax have two more.
inline constexpr int kBasicControlModes = 6;

// Names of a net's types by their numbers: "openpose", "depth", "hed", "canny", "normal",
// "segment", and of ProMax "tile" and "repaint"; "8" and so on behind these, which no published net
// has.
std::vector<std::string> NamesOfControlModes(int count);

// One of them. REQUIRES: mode >= 0.
std::string NameOfControlMode(int mode);

// "0 (openpose), 1 (depth), ...".
std::string ControlModesText(int count);

}  // namespace latentd::pipeline
