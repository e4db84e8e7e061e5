// Standard error as a collector that is stuck leaves it: a pipe without room.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/time/time.h"

namespace latentd::testing {

class FullPipe {
 public:
  static constexpr int kBytes = 4096;

  FullPipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_EQ(fcntl(ends_[1], F_SETPIPE_SZ, kBytes), kBytes);
    EXPECT_EQ(write(ends_[1], std::string(kBytes, '.').data(), kBytes), kBytes);
  }
  ~FullPipe() {
    CloseWriter();
    if (reader_.joinable()) reader_.join();
    close(ends_[0]);
  }

  int writer() const { return ends_[1]; }

  // In a thread of its own.
  void StartReading() {
    reader_ = std::thread([this] {
      char bytes[kBytes];
      for (ssize_t size = 1; size > 0;) {
        size = read(ends_[0], bytes, sizeof(bytes));
        if (size > 0) read_.append(bytes, static_cast<size_t>(size));
      }
    });
  }
  // The bytes written after the first ones that filled it. REQUIRES: StartReading; no more writers.
  std::string ReadToEnd() {
    CloseWriter();
    reader_.join();
    return read_.substr(kBytes);
  }

 private:
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

  int ends_[2] = {-1, -1};
  std::string read_;
  std::thread reader_;
};

}  // namespace latentd::testing
