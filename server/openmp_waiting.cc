// How long OpenMP's threads spin for each other before they sleep.
//
// They meet several hundred times in a step. libgomp lets them spin for milliseconds, which is
// right on a machine that has nothing else to do and ruinous on any other: while one spins, the one
// it waits for does not run. With a short spin a picture takes as long on an idle machine, and a
// tenth of the time on a busy one (tests/bench/README.md has the numbers).
//
// libgomp reads its settings when it is initialised, before main. So the program starts itself
// again, once, with GOMP_SPINCOUNT set, unless that or OMP_WAIT_POLICY is set already. It does so
// as soon as code of its own can run, ahead of every library's static constructors: those of
// LibTorch take a quarter of a second, and need not run twice.
#include <unistd.h>

#include <climits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace latentd::server {
namespace {

char kSpinCount[] = "GOMP_SPINCOUNT=300";  // about a microsecond

bool SaysHowToWait(absl::string_view variable) {
  return absl::StartsWith(variable, "GOMP_SPINCOUNT=") ||
         absl::StartsWith(variable, "OMP_WAIT_POLICY=");
}

// Nothing is initialised here, the C library's `environ` included. Returns where nothing is to be
// done or starting again is not possible.
void ShortenOpenMpSpinning(int /*argc*/, char** argv, char** environment) {
  std::vector<char*> variables;
  for (; *environment != nullptr; ++environment) {
    if (SaysHowToWait(*environment)) return;
    variables.push_back(*environment);
  }
  variables.insert(variables.end(), {kSpinCount, nullptr});
  // By its own path, so that the process keeps its name.
  char program[PATH_MAX] = {};
  if (readlink("/proc/self/exe", program, sizeof(program) - 1) <= 0) return;
  execve(program, argv, variables.data());
}

// The loader calls what stands in this section of a program before any library's constructors.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**,
                                                                   char**) = ShortenOpenMpSpinning;

}  // namespace
}  // namespace latentd::server
