// What a user sees of a request that runs: a bar that moves on a terminal, lines of text elsewhere.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

enum class DisplayStyle { kNone, kLines, kBar };

// Not thread-safe.
class ProgressDisplay {
 public:
  // `out` must outlive it. `pictures` is how many were asked for. `columns` says, whenever
  // something is drawn, how wide the terminal is; 0: nobody knows.
  ProgressDisplay(
      std::ostream& out, DisplayStyle style, int pictures,
      std::function<int()> columns = [] { return 0; });

  // Removes the bar.
  ~ProgressDisplay();

  void Show(const ::latent::v1::GenerateEvent& event);

  // Removes the bar, so that something else can be printed; the next event draws it again.
  void Clear();

 private:
  void ShowStep(const ::latent::v1::Progress& progress);
  void Line(const std::string& text);
  // That a line may have.
  int Columns() const;

  std::ostream& out_;
  const DisplayStyle style_;
  const int pictures_;
  const std::function<int()> columns_;
  bool drawn_ = false;
  int last_tenth_ = -1;  // of the steps of a picture, as lines show them
  int last_picture_ = -1;
  ::latent::v1::Stage last_stage_ = ::latent::v1::STAGE_UNSPECIFIED;
};

// "base       12/50 [=====>       ]  24%", with "picture 2/4" in front where there are several. Has
// at most `columns` characters: a shorter bar, none, or the steps alone.
std::string BarText(const ::latent::v1::Progress& progress, int pictures, int columns);

// Of the terminal on standard error; 0: there is none, or it does not say.
int TerminalColumns();

}  // namespace latentd::client
