#include "core/base/process/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace latentd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CgroupDirectoriesTest, GoesUpFromTheOwnGroupToTheRoot) {
  EXPECT_THAT(CgroupDirectories("0::/system.slice/latentd.service\n", "memory"),
              ElementsAre(CgroupDirectory{"/sys/fs/cgroup/system.slice/latentd.service", 2},
                          CgroupDirectory{"/sys/fs/cgroup/system.slice", 2},
                          CgroupDirectory{"/sys/fs/cgroup", 2}));
}

TEST(CgroupDirectoriesTest, FindsTheControllerAmongThoseOfVersion1) {
  const char membership[] =
      "9:name=systemd:/\n"
      "4:memory:/docker/abc\n"
      "1:cpu,cpuacct:/c\n"
      "3:cpuset:/\n";
  EXPECT_THAT(CgroupDirectories(membership, "memory"),
              ElementsAre(CgroupDirectory{"/sys/fs/cgroup/memory/docker/abc", 1},
                          CgroupDirectory{"/sys/fs/cgroup/memory/docker", 1},
                          CgroupDirectory{"/sys/fs/cgroup/memory", 1}));
  EXPECT_THAT(CgroupDirectories(membership, "cpu"),
              ElementsAre(CgroupDirectory{"/sys/fs/cgroup/cpu/c", 1},
                          CgroupDirectory{"/sys/fs/cgroup/cpu", 1}));
}

TEST(CgroupDirectoriesTest, ReadsTheRootForAGroupOutsideOfTheNamespace) {
  EXPECT_THAT(CgroupDirectories("0::/../other\n", "cpu"),
              ElementsAre(CgroupDirectory{"/sys/fs/cgroup", 2}));
}

TEST(CgroupDirectoriesTest, KeepsColonsOfAGroupsName) {
  EXPECT_THAT(
      CgroupDirectories("0::/a:b\n", "cpu"),
      ElementsAre(CgroupDirectory{"/sys/fs/cgroup/a:b", 2}, CgroupDirectory{"/sys/fs/cgroup", 2}));
}

TEST(CgroupDirectoriesTest, SkipsLinesOfAnotherForm) {
  EXPECT_THAT(CgroupDirectories("", "cpu"), IsEmpty());
  EXPECT_THAT(CgroupDirectories("nonsense\n\n1:2\n", "cpu"), IsEmpty());
}

}  // namespace
}  // namespace latentd
