#include "core/engine/requests/departures.h"

#include <gtest/gtest.h>

namespace latentd::engine {
namespace {

TEST(DeparturesTest, APresenceIsToldOnceWhenNobodyHoldsItAnyMore) {
  int told = 0;
  const auto departures = std::make_shared<Departures>([&told] { ++told; });
  std::shared_ptr<const void> presence = departures->Expect(), again = presence;
  const std::shared_ptr<const void> other = departures->Expect();
  presence.reset();
  EXPECT_EQ(told, 0);
  again.reset();
  EXPECT_EQ(told, 1);
}

TEST(DeparturesTest, NothingIsToldOnceItIsDisconnectedOrGone) {
  int told = 0;
  auto departures = std::make_shared<Departures>([&told] { ++told; });
  std::shared_ptr<const void> presence = departures->Expect(), longer = departures->Expect();
  departures->Disconnect();
  presence.reset();
  departures = nullptr;
  longer.reset();
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace latentd::engine
