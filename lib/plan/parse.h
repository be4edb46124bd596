#pragma once
// Parses numbers with units, as the options of lzy-plan take them. Units are required: "20" could be days or years. The
// result is nullopt if the text is not accepted.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lzy {

/// "90s", "15m", "36h", "30d", "2w", "5y": hours; more than 0 unless `zero`.
std::optional<double> ParseHours(const std::string& text, bool zero = false);
/// A failure rate: a mean time ("1.2Mh", "1200000h", "50y") or a share per year ("2%/y"). Events per hour; "never" is 0.
std::optional<double> ParseFailureRate(const std::string& text);
/// "1e-15/bit" or "1e-14/byte": per bit, from 0 to 1e-6.
std::optional<double> ParseBitErrors(const std::string& text);
/// "0.5/T/y": new bad blocks per amount of data (K, M, G, T: powers of 1024) and time. Result: per byte and hour.
std::optional<double> ParseRot(const std::string& text);
/// "64K", "1.5T", "100": bytes, more than 0. ParseSpeed: "500M/s", "2G/s": bytes per hour.
std::optional<double> ParseBytes(const std::string& text);
std::optional<double> ParseSpeed(const std::string& text);
/// "0.01%", "1e-6": a probability, more than 0 and less than 1.
std::optional<double> ParseProbability(const std::string& text);
/// "4,8,16": numbers from `least` to `most`, ascending, each once.
std::optional<std::vector<std::uint32_t>> ParseNumbers(const std::string& text, std::uint32_t least, std::uint32_t most);
/// A time such as "0.5 s", "3.2 min", "5.1 h", "2.3 d" or "4.0 y".
std::string HoursText(double hours);

}  // namespace lzy
