#pragma once
// How the benchmarks measure: the ways that are compared take turns, so that disturbances of the machine meet all of
// them alike. What counts is the median; the least time tells what the machine can do if nothing disturbs it.
//
// Needs neither MPI nor lzy. Programs under mpiexec include under_mpi.h, which includes this.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

/// Seconds of one way, one value for each round that counts, in the order of the rounds.
using Times = std::vector<double>;

/// The mean of the two middle values if their number is even. `times` must not be empty.
inline double Median(Times times) {
  std::sort(times.begin(), times.end());
  return (times[times.size() / 2] + times[(times.size() - 1) / 2]) / 2;
}

inline double Least(const Times& times) {
  return *std::min_element(times.begin(), times.end());
}

/// How long to go on: `least` rounds in any case, then until `most` rounds are made or `seconds` are spent.
struct Rounds {
  int least = 5;
  int most = 200;
  /// Of all ways together; sums of what the ways returned.
  double seconds = std::numeric_limits<double>::infinity();
  /// Rounds before the first that counts: they warm up memory, caches and connections.
  int uncounted = 1;
};

/// Calls `once(way, counted)`, which returns seconds, for the ways 0 to `ways` - 1 in each round. `counted` is false in
/// rounds that do not count. Returns the times by way.
///
/// If ranks do this together and `seconds` is limited, `once` must return the same on all ranks. Otherwise one rank
/// would end before the others, which then wait for it forever.
template <class Once>
std::vector<Times> TakeTurns(std::size_t ways, const Rounds& rounds, const Once& once) {
  std::vector<Times> times(ways);
  double spent = 0;
  for (int i = -rounds.uncounted; i < rounds.most && (i < rounds.least || spent < rounds.seconds); ++i) {
    for (std::size_t way = 0; way < ways; ++way) {
      const double seconds = once(way, i >= 0);
      if (i < 0) continue;
      spent += seconds;
      times[way].push_back(seconds);
    }
  }
  return times;
}
