#pragma once
// Classic netCDF, as libnetcdf and PnetCDF write it: CDF-1, CDF-2 (64-bit offsets), CDF-5 (64-bit sizes). The grammar is in
// the NetCDF User's Guide, "NetCDF Classic Format Specification", and in PnetCDF's "CDF-5 file format specification".

#include "objects/object_map.h"
#include "objects/object_source.h"

namespace lzy {

/// Whether a file begins like a classic netCDF file. `head`: its first 4 bytes.
bool IsCdf(ByteSpan head);

/// Adds the objects and their extents. Variables have their names with a leading '/', as in netCDF-4; "/" is the rest of
/// the header. Parses up to the first wrong byte, or all bytes if `trust`. True if all objects were added.
bool MapCdf(const ObjectSource& source, bool trust, MapSink& sink);

}  // namespace lzy
