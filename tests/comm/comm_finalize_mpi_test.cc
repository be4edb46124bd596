#include <gtest/gtest.h>

#include "mpi/finalize_progress.h"

namespace lzy {
namespace {

TEST(FinalizeProgress, IsForMpichBefore42) {
  EXPECT_TRUE(WaitsDeafInFinalize("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n"));
  EXPECT_TRUE(WaitsDeafInFinalize("MPICH Version:      4.1.3\n"));
  EXPECT_TRUE(WaitsDeafInFinalize("MPICH Version:\t3.4.1\n"));
  EXPECT_TRUE(WaitsDeafInFinalize("MPICH Version:\t4.1rc2"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version:\t4.2.0\n"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version:\t4.10.1\n"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version:\t5.0.0\n"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version:\t10.0\n"));
}

TEST(FinalizeProgress, IsForNoOtherMpi) {
  EXPECT_FALSE(WaitsDeafInFinalize(""));
  EXPECT_FALSE(WaitsDeafInFinalize("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"));
  EXPECT_FALSE(WaitsDeafInFinalize("Intel(R) MPI Library 2021.18 for Linux* OS"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version:"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version: 4"));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version: 4."));
  EXPECT_FALSE(WaitsDeafInFinalize("MPICH Version: main"));
}

}  // namespace
}  // namespace lzy
