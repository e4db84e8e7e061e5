#include "server/process/ports/health_pages.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace latentd::server::process {
namespace {

Page::Text ToText(const std::string& why_not) {
  return {.is_good = why_not.empty(), .text = absl::StrCat(why_not.empty() ? "ok" : why_not, "\n")};
}

}  // namespace

std::vector<Page> HealthPages(const Health& health) {
  return {{"/healthz", [&health] { return ToText(health.WhyNotAlive()); }},
          {"/readyz", [&health] { return ToText(health.WhyNotReady()); }}};
}

}  // namespace latentd::server::process
