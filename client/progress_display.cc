#include "client/progress_display.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;

constexpr int kBarCells = 30;
constexpr char kEraseLine[] = "\r\033[K";

std::string StageName(v1::Stage stage) {
  switch (stage) {
    case v1::STAGE_TEXT_ENCODE:
      return "reading";
    case v1::STAGE_VAE_ENCODE:
      return "encoding";
    case v1::STAGE_BASE:
      return "base";
    case v1::STAGE_REFINER:
      return "refiner";
    case v1::STAGE_VAE_DECODE:
      return "decoding";
    case v1::STAGE_IMAGE_ENCODE:
      return "saving";
    default:
      return "working";
  }
}

double Fraction(const v1::Progress& progress) {
  if (progress.total_steps() <= 0) return 0;
  return std::clamp(static_cast<double>(progress.step()) / progress.total_steps(), 0.0, 1.0);
}

std::string PictureOf(const v1::Progress& progress, int pictures) {
  return pictures > 1 ? absl::StrCat("picture ", progress.image_index() + 1, "/", pictures, " ")
                      : "";
}

}  // namespace

std::string BarText(const v1::Progress& progress, int pictures) {
  const double fraction = Fraction(progress);
  const int full = static_cast<int>(fraction * kBarCells);
  std::string bar(static_cast<size_t>(full), '=');
  if (full < kBarCells) bar += '>';
  bar.resize(kBarCells, ' ');
  return absl::StrFormat("%s%-8s %3d/%d [%s] %3.0f%%", PictureOf(progress, pictures),
                         StageName(progress.stage()), progress.step(), progress.total_steps(), bar,
                         fraction * 100);
}

ProgressDisplay::ProgressDisplay(std::ostream& out, DisplayStyle style, int pictures)
    : out_(out), style_(style), pictures_(pictures) {}

ProgressDisplay::~ProgressDisplay() { Clear(); }

void ProgressDisplay::Clear() {
  if (drawn_) out_ << kEraseLine << std::flush;
  drawn_ = false;
}

void ProgressDisplay::Line(const std::string& text) {
  if (style_ == DisplayStyle::kNone) return;
  if (style_ == DisplayStyle::kBar) {
    out_ << kEraseLine << text << std::flush;
    drawn_ = true;
  } else {
    out_ << text << std::endl;
  }
}

void ProgressDisplay::Show(const v1::GenerateEvent& event) {
  if (event.has_queued() && event.queued().position() > 0) {
    const int position = event.queued().position();
    Line(absl::StrCat("waiting for ", position, position == 1 ? " picture" : " pictures",
                      " before this one"));
  } else if (event.has_started()) {
    const v1::Size& size = event.started().executed_size();
    Line(absl::StrCat("drawing ", size.width(), "x", size.height()));
  } else if (event.has_progress()) {
    ShowStep(event.progress());
  }
}

void ProgressDisplay::ShowStep(const v1::Progress& progress) {
  if (style_ != DisplayStyle::kLines) return Line(BarText(progress, pictures_));
  const int tenth = static_cast<int>(Fraction(progress) * 10);
  const bool news = tenth != last_tenth_ || progress.image_index() != last_picture_ ||
                    progress.stage() != last_stage_;
  if (!news) return;
  last_tenth_ = tenth;
  last_picture_ = progress.image_index();
  last_stage_ = progress.stage();
  Line(absl::StrCat(PictureOf(progress, pictures_), StageName(progress.stage()), " ",
                    progress.step(), "/", progress.total_steps()));
}

}  // namespace latentd::client
