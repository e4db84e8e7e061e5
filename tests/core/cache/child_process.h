// Runs a part of a test in a process of its own, for what cannot be undone: limits, users, mounts,
// death.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace latentd::testing {

inline constexpr int kChildCannot = 77;  // exit status: this machine does not let the child do it

// Expectations that fail in `body` fail the child, which prints them. REQUIRES: no other thread
// runs.
template <typename Body>
pid_t StartChild(const Body& body) {
  fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  fflush(stdout);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

// Waits for its end: its exit status, 0 where nothing failed, or 128 and the signal that killed it.
inline int EndOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

template <typename Body>
int RunInChild(const Body& body) {
  return EndOf(StartChild(body));
}

}  // namespace latentd::testing
