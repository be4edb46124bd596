#pragma once
// Classic netCDF, as libnetcdf and PnetCDF write it: CDF-1, CDF-2 (64-bit offsets), CDF-5 (64-bit sizes). The grammar is in
// the NetCDF User's Guide, "NetCDF Classic Format Specification", and in PnetCDF's "CDF-5 file format specification".

#include "objects/object_map.h"
#include "objects/source.h"

namespace lzy {

/// Whether a file begins as a classic netCDF file does. `head`: its first 4 bytes.
bool IsCdf(ByteSpan head);

/// Adds the objects and their extents: variables by their names with a leading '/', as in netCDF-4; "/" for the rest of the
/// header. Parses up to the first wrong byte, or all bytes if `trust`. True if it reached the end, so that no object is
/// left out.
bool MapCdf(const ObjectSource& source, bool trust, MapSink& sink);

}  // namespace lzy
