// A request that runs, as its user sees it: a bar that moves on a terminal; elsewhere a line when
// drawing begins, and then one every ten seconds at most.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

enum class DisplayStyle { kNone, kLines, kBar };

// Not thread-safe.
class ProgressDisplay {
 public:
  // `out` must outlive it. `pictures` is how many were asked for. `columns` returns, whenever
  // something is drawn, the width of the terminal; 0: unknown.
  ProgressDisplay(
      std::ostream& out, DisplayStyle style, int pictures,
      std::function<int()> columns = [] { return 0; }, const Clock& clock = SystemClock());

  // Removes the bar.
  ~ProgressDisplay();

  void Show(const ::latent::v1::GenerateEvent& event);

  // Removes the bar, so that something else can be printed; the next event draws it again.
  void Clear();

 private:
  void ShowStep(const ::latent::v1::Progress& progress);
  void Line(const std::string& text);
  // A line that others will follow: not where the last one was just now.
  void PassingLine(const std::string& text);
  // The most that a line may have.
  int Columns() const;

  std::ostream& out_;
  const DisplayStyle style_;
  const int pictures_;
  const std::function<int()> columns_;
  const Clock& clock_;
  bool drawn_ = false;
  absl::Time last_line_ = absl::InfinitePast();
};

// "base       12/50 [=====>       ]  24%", with "picture 2/4" in front where there are several. Has
// at most `columns` characters: a shorter bar, none, or the steps alone.
std::string BarText(const ::latent::v1::Progress& progress, int pictures, int columns);

// The width of the terminal on standard error; 0: there is none, or it does not say.
int TerminalColumns();

}  // namespace latentd::client
