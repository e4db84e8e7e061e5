// A close() of the whole program that counts what it is told to close and is not open (closes.cc):
// a descriptor that is closed twice may be another's by then.
#pragma once

namespace latentd::testing {

// Since the program started. Always 0 under a sanitizer, which has its own close(). Thread-safe.
int ClosesOfWhatIsClosed();

}  // namespace latentd::testing
