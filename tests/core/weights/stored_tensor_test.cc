#include "core/weights/stored_tensor.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"

namespace latentd::weights {
namespace {

TEST(ContentDigestTest, IsMadeOnceForThreadsThatAskTogether) {
  const Digest expected = DigestOf("bytes");
  absl::Notification is_asked;
  int times = 0;
  const ContentDigest digest([&] {
    ++times;
    is_asked.Notify();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // the other asks, most times
    return expected;
  });
  std::thread first([&] { EXPECT_EQ(digest.Get(), expected); });
  is_asked.WaitForNotification();
  EXPECT_EQ(digest.Get(), expected);
  first.join();
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace latentd::weights
