#pragma once
// Maps HDF5 and netCDF-4 files with libhdf5. The library reports the places of datasets, but not those of metadata. But it
// reads the whole file through a driver, and the driver in hdf5_map.cc notes which reads belong to which object.

#include "objects/object_map.h"
#include "objects/source.h"

namespace lzy {

/// Whether the file has the signature of HDF5, where it may be.
bool IsHdf5(const ObjectSource& source);

/// Initialises libhdf5. Call it before the process is confined.
bool PrepareHdf5();

/// Adds the objects and their extents. Wrong bytes are not read, unless `trust`. True if no object is left out.
bool MapHdf5(const ObjectSource& source, bool trust, MapSink& sink);

}  // namespace lzy
