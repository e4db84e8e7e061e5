// How long OpenMP's threads spin for each other before they sleep.
//
// They meet several hundred times in a step. libgomp lets them spin for milliseconds, which is
// right on a machine that has nothing else to do and ruinous on any other: while one spins, the one
// it waits for does not run. With a short spin a picture takes as long on an idle machine, and a
// tenth of the time on a busy one (tests/bench/README.md has the numbers).
#pragma once

namespace latentd::server {

// libgomp reads its settings when it is loaded, so this starts the program again, once, with
// GOMP_SPINCOUNT set; it returns only where nothing is to be done: somebody has set GOMP_SPINCOUNT
// or OMP_WAIT_POLICY, or starting again is not possible. REQUIRES: called first in main, with its
// argv.
void ShortenOpenMpSpinning(char** argv);

}  // namespace latentd::server
