#pragma once
// Maps HDF5 and netCDF-4 files with libhdf5. The library reports the places of datasets, but not those of metadata. It
// reads the file through the driver in tracing_driver.h, and hdf5_map.cc notes which reads belong to which object.

#include "objects/object_map.h"
#include "objects/object_source.h"

namespace lzy {

/// Whether the file has the signature of HDF5 at one of its possible places.
bool IsHdf5(const ObjectSource& source);

/// Initialises libhdf5. Call it before the process is confined.
bool PrepareHdf5();

/// Adds the objects and their extents. Does not read wrong bytes, unless `trust`. True if all objects were added.
bool MapHdf5(const ObjectSource& source, bool trust, MapSink& sink);

}  // namespace lzy
