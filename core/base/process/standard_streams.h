// Standard input, output and error of a process, as its shell left them: each may be closed, and
// output may be lost on a full disk.
//
// A program that calls FinishOutput has all three from its beginning: those that are closed are
// opened before main and before any library, as no file or socket is to take their numbers. Reading
// such an input or writing such an output fails with EBADF; what is said on such an error goes
// nowhere.
#pragma once

#include "absl/strings/string_view.h"

namespace latentd {

// `exit_code`; or 1 where that is 0 and what was written to std::cout could not be, after a line
// that begins with the program's name. Call last in main.
int FinishOutput(absl::string_view program, int exit_code);

}  // namespace latentd
