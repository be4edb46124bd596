# Copyright (c) 2026, the lzy authors
#
# SPDX-License-Identifier: BSD-3-Clause

from spack.package import *


class Lzy(CMakePackage):
    """Lazy redundancy and verification for MPI-IO. lzy protects files that
    parallel programs write through MPI-IO, directly or through HDF5, NetCDF-4,
    PnetCDF or h5py. It finds lost files and corrupted blocks, and rebuilds
    them. Programs stay unchanged."""

    homepage = "https://example.org/lzy"
    # The tarball that the target "dist" makes. Until there is a public place for it, give Spack a
    # source tree: spack dev-build lzy@1.0.0
    url = "https://example.org/lzy/lzy-1.0.0.tar.gz"

    # ISC: the modules of D3 in lzy-status (third_party/d3).
    license("BSD-3-Clause AND ISC", checked_by="lzy")

    version("1.0.0")

    variant("mpi", default=True, description="Build for an MPI library, which lzy always needs")
    variant("hdf5", default=False, description="Build the example simulation with parallel HDF5")
    variant("tests", default=False, description="Build the tests")

    conflicts("~mpi", msg="lzy protects MPI programs: it needs an MPI library")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")

    depends_on("mpi", when="+mpi")
    depends_on("hdf5+mpi", when="+hdf5")
    depends_on("isa-l")
    depends_on("xxhash")
    depends_on("libsodium")
    depends_on("sqlite")
    depends_on("fmt@9:")
    depends_on("cli11@2:", type="build")
    depends_on("nlohmann-json@3.10:", type="build")
    depends_on("googletest@1.12: +gmock", type="build", when="+tests")
    depends_on("benchmark", type="build", when="+tests")

    def cmake_args(self):
        return [
            self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc),
            self.define_from_variant("LZY_BUILD_TESTS", "tests"),
        ]

    def test_version(self):
        """the tools start, and say the version"""
        lzy = which(self.prefix.bin.lzy)
        out = lzy("--version", output=str.split, error=str.split)
        assert str(self.spec.version) in out
