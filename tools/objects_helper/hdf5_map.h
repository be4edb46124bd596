#pragma once
// HDF5 and netCDF-4: what lies where, by libhdf5. The library tells where datasets are. Where metadata are it does not tell;
// but it reads all of a file through a driver, and the driver of hdf5_map.cc notes what was read for which object.

#include "objects/object_map.h"
#include "objects/source.h"

namespace lzy {

/// Whether the file has the signature of HDF5, where it may be.
bool IsHdf5(const ObjectSource& source);

/// What libhdf5 must do before the process is confined.
bool PrepareHdf5();

/// Adds what lies where. Bytes that are wrong are not read, unless `trust`. True if nothing is left out.
bool MapHdf5(const ObjectSource& source, bool trust, MapSink& sink);

}  // namespace lzy
