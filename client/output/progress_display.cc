#include "client/output/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/words/text.h"

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;

// Between lines that say how far it is.
constexpr absl::Duration kLinePause = absl::Seconds(10);
constexpr int kBarCells = 30;
constexpr int kFewestCells = 5;
// The width of a terminal that does not say it.
constexpr int kUsualColumns = 80;
constexpr char kEraseLine[] = "\r\033[K";

// A stage as it is displayed; steps go by the model's name.
std::string StageName(const v1::Progress& progress) {
  switch (progress.stage()) {
    case v1::STAGE_TEXT:
      return "reading";
    case v1::STAGE_IMAGE:
      return "encoding";
    case v1::STAGE_STEPS:
      return progress.model().empty() ? "drawing" : progress.model();
    case v1::STAGE_DECODE:
      return "decoding";
    case v1::STAGE_ENCODE_FILE:
      return "saving";
    default:
      return "working";
  }
}

double Fraction(const v1::Progress& progress) {
  if (progress.total_steps() <= 0) return 0;
  return std::clamp(static_cast<double>(progress.step()) / progress.total_steps(), 0.0, 1.0);
}

// "[====>    ]", with so many cells between the brackets.
std::string Bar(double fraction, int cells) {
  const int full = static_cast<int>(fraction * cells);
  std::string bar(static_cast<size_t>(full), '=');
  if (full < cells) bar += '>';
  bar.resize(static_cast<size_t>(cells), ' ');
  return absl::StrCat("[", bar, "]");
}

std::string PictureOf(const v1::Progress& progress, int pictures) {
  return pictures > 1 ? absl::StrCat("picture ", progress.image_index() + 1, "/", pictures, " ")
                      : "";
}

// ", 12 s or so"; nothing where the server does not know.
std::string WaitText(const v1::Queued& queued) {
  if (!queued.has_estimated_wait()) return "";
  return absl::StrCat(", ", queued.estimated_wait().seconds() + 1, " s or so");
}

}  // namespace

std::string BarText(const v1::Progress& progress, int pictures, int columns) {
  const double fraction = Fraction(progress);
  const std::string steps =
      absl::StrFormat("%-8s %3d/%d", StageName(progress), progress.step(), progress.total_steps());
  const std::string percent = absl::StrFormat(" %3.0f%%", fraction * 100);
  const std::string left = absl::StrCat(PictureOf(progress, pictures), steps);
  const int cells = columns - static_cast<int>(left.size() + percent.size() + sizeof(" []") - 1);
  if (cells >= kFewestCells) {
    return absl::StrCat(left, " ", Bar(fraction, std::min(cells, kBarCells)), percent);
  }
  for (const std::string& shorter : {absl::StrCat(left, percent), left, steps}) {
    if (static_cast<int>(shorter.size()) <= columns) return shorter;
  }
  return steps.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

int TerminalColumns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

ProgressDisplay::ProgressDisplay(std::ostream& out, DisplayStyle style, int pictures,
                                 std::function<int()> columns, const Clock& clock)
    : out_(out), style_(style), pictures_(pictures), columns_(std::move(columns)), clock_(clock) {}

ProgressDisplay::~ProgressDisplay() { Clear(); }

void ProgressDisplay::Clear() {
  if (drawn_) out_ << kEraseLine << std::flush;
  drawn_ = false;
}

int ProgressDisplay::Columns() const {
  const int columns = columns_();
  return (columns > 0 ? columns : kUsualColumns) - 1;
}

void ProgressDisplay::Line(const std::string& text) {
  if (style_ == DisplayStyle::kNone) return;
  if (style_ == DisplayStyle::kBar) {
    // A line that reached the last column would go on in the next one, and stay there.
    out_ << kEraseLine << text.substr(0, static_cast<size_t>(Columns())) << std::flush;
    drawn_ = true;
  } else {
    out_ << text << std::endl;
    last_line_ = clock_.Monotonic();
  }
}

void ProgressDisplay::PassingLine(const std::string& text) {
  const bool is_soon = clock_.Monotonic() - last_line_ < kLinePause;
  if (style_ == DisplayStyle::kBar || !is_soon) Line(text);
}

void ProgressDisplay::Show(const v1::GenerateEvent& event) {
  if (event.has_queued() && event.queued().position() > 0) {
    const int position = event.queued().position();
    PassingLine(absl::StrCat("waiting for ", position, position == 1 ? " picture" : " pictures",
                             " before this one", WaitText(event.queued())));
  } else if (event.has_started()) {
    const v1::Size& size = event.started().executed_size();
    Line(absl::StrCat("drawing ", SizeText(size)));
  } else if (event.has_progress()) {
    ShowStep(event.progress());
  }
}

void ProgressDisplay::ShowStep(const v1::Progress& progress) {
  if (style_ == DisplayStyle::kBar) return Line(BarText(progress, pictures_, Columns()));
  PassingLine(absl::StrCat(PictureOf(progress, pictures_), StageName(progress), " ",
                           progress.step(), "/", progress.total_steps()));
}

}  // namespace latentd::client
