#pragma once
// The format of a call (comm/calls.h) and its answer: a call is a record, an answer has some bytes and a record.
//
// remote/files and copy/remote use it.

#include <algorithm>
#include <functional>

#include "base/record.h"
#include "comm/calls.h"

namespace lzy {

/// Ends an answer that has `bytes` bytes at its beginning: appends a record and its length. Returns the total length. If
/// the record does not fit, the answer is a record with an error as its `status`.
template <class Facts>
std::size_t PutAnswer(MutableByteSpan answer, std::uint64_t bytes, const Facts& facts) {
  std::vector<std::uint8_t> record = EncodeRecord(facts);
  if (bytes + record.size() + 4 > answer.size()) {
    Facts failed;
    failed.status = {Code::kInternal, "what is to be told of a file is too long"};
    record = EncodeRecord(failed);
    bytes = 0;
  }
  std::ranges::copy(record, answer.begin() + static_cast<std::ptrdiff_t>(bytes));
  StoreLe(answer.data() + bytes + record.size(), static_cast<std::uint32_t>(record.size()));
  return bytes + record.size() + 4;
}

/// The record of an answer, and the number of bytes before it.
template <class Facts>
Result<std::size_t> GetAnswer(ByteSpan answer, Facts& facts) {
  if (answer.size() >= 4) {
    const auto length = LoadLe<std::uint32_t>(answer.data() + answer.size() - 4);
    if (length <= answer.size() - 4) {
      const std::size_t bytes = answer.size() - 4 - length;
      LZY_RETURN_IF_ERROR(DecodeRecord(answer.subspan(bytes, length), facts));
      return bytes;
    }
  }
  return Status(Code::kInternal, "an answer of another rank is malformed");
}

/// A handler that answers by `answer`, and with the status of `Facts` if that throws.
template <class Facts>
CallHandler AnswerBy(std::function<std::size_t(ByteSpan call, MutableByteSpan answer)> answer, unsigned threads, std::size_t most_answer) {
  return {[answer = std::move(answer)](int, ByteSpan call, MutableByteSpan to) {
            std::size_t length = 0;
            const Status done = NoThrow([&] { length = answer(call, to); });
            if (done.ok()) return length;
            Facts failed;
            failed.status = Status(done.code(), "");
            return PutAnswer(to, 0, failed);
          },
          threads, most_answer};
}

/// Calls about `path`, and waits. Puts the record of the answer into `facts`, and returns the number of bytes before it, at
/// the beginning of `answer`. The returned error concerns the communication, in the words of `lost(status, path)`. An error
/// of the asked rank is in `facts`.
template <class Call, class Lost, class Facts>
Result<std::size_t> Ask(Caller& caller, int rank, const Call& call, const std::string& path, const Lost& lost, MutableByteSpan answer,
                        Facts& facts) {
  auto record = EncodeRecord(call);
  if (record.size() > Caller::kMostCall) return Status(Code::kInvalidArgument, path + ": its name is too long");
  const auto length = caller.Call(rank, std::move(record), answer);
  if (!length.ok()) return lost(length.status(), path);
  return GetAnswer(ByteSpan(answer.data(), *length), facts);
}

}  // namespace lzy
