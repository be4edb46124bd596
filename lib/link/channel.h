#pragma once
// Messages between two processes over several byte streams, such as the pipes of several ssh processes.
//
// link/link_communicator uses it. A message travels in pieces of 256 KiB over whichever stream is free. Each piece has a hash.
// A piece that arrives damaged is sent again, alone. Both ends keep a message until the other end has all of it.
//
// The streams must deliver all bytes in order, but may damage some. The header of a piece is sent twice. If both are damaged,
// or a stream ends, the channel has failed, and stays so.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/record.h"
#include "base/status.h"
#include "merkle/hash.h"
#include "storage/parallel.h"

namespace lzy {

/// What a message is for. The channel does not read these fields.
struct MessageLabel {
  std::uint8_t kind = 0;
  std::array<std::uint64_t, 3> numbers{};
  LZY_FIELDS(kind, numbers)
};

/// A message that has arrived.
struct ChannelMessage {
  MessageLabel label;
  std::shared_ptr<AlignedBuffer> buffer;
  std::uint64_t size = 0;
  ByteSpan bytes() const { return {buffer->data(), size}; }
};

/// Thread-safe. Starts two threads for each stream.
class Channel {
 public:
  static constexpr std::uint64_t kPiece = 256u << 10;
  /// Send waits while more bytes than this have not been written to a stream yet.
  static constexpr std::uint64_t kMostQueued = 8u << 20;
  /// How long an end that does not answer is waited for when the work is over.
  static constexpr std::chrono::seconds kPatience{20};
  /// How often a piece is sent again.
  static constexpr unsigned kTries = 20;

  /// `peer`: the name of the other end, for messages. `receive` is called for each message by the threads of the channel; it
  /// must be brief and must not throw or send. `failed` is called once, after status() has changed; it must be brief, too.
  Channel(std::string peer, std::function<void(ChannelMessage)> receive, std::function<void()> failed);
  /// Ends all streams. Call Close first to end them in order.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// How a stream begins. The ends of one stream need not add it at the same time.
  enum class Begin {
    kAtOnce,   ///< the other end has added it, or will do so
    kTell,     ///< the same, and the other end waits for that
    kWait,     ///< write nothing to it until the other end tells
  };
  /// Adds a stream, at any time. `why_ended` is called if it ends too early, and returns the reason ("ssh ended with exit code
  /// 255"), or nothing. May be empty.
  Status Add(Descriptor in, Descriptor out, std::function<std::string()> why_ended, Begin begin = Begin::kAtOnce);
  /// Sends a message. `owner` keeps `bytes` alive. Waits if too much is queued. After a failure, returns at once.
  void Send(const MessageLabel& label, std::shared_ptr<const void> owner, ByteSpan bytes);
  /// The same for a short message, without waiting, so any thread may call it.
  void Send(const MessageLabel& label, std::vector<std::uint8_t> bytes);
  /// Waits until the other end has all messages and has called Close, too, or has ended. Then the end of a stream is no failure. If that
  /// takes more than `patience`, the channel fails.
  void Close(std::chrono::milliseconds patience = kPatience);
  /// The channel fails: "PEER: why".
  void GiveUp(const std::string& why);
  /// When something last came from the other end.
  std::chrono::steady_clock::time_point last_heard() const;

  /// Not ok: the channel has failed.
  Status status() const;
  unsigned streams() const;
  /// The bytes that the other end received damaged, and that were sent again.
  std::uint64_t sent_again() const;
  /// The same for this end.
  std::uint64_t damaged() const;

 private:
  enum class Type : std::uint8_t { kPiece, kHas, kDamaged, kEnd, kBegin };
  struct Header {
    Type type = Type::kPiece;
    MessageLabel label;
    std::uint64_t message = 0;  ///< counted from 1
    std::uint64_t total = 0;    ///< bytes of the message
    std::uint64_t piece = 0;
    std::uint32_t length = 0;   ///< bytes that follow
    Hash hash;                  ///< of these bytes
    LZY_FIELDS(type, label, message, total, piece, length, hash)
  };
  struct Outgoing {
    MessageLabel label;
    std::shared_ptr<const void> owner;
    ByteSpan bytes;
    std::map<std::uint64_t, unsigned> again;  // by piece: how often it was sent again
  };
  struct Incoming {
    std::shared_ptr<AlignedBuffer> buffer;
    std::uint64_t total = 0;    // bytes
    std::vector<bool> taken;    // by piece: it came, or is being read
    std::uint64_t missing = 0;  // pieces
  };
  struct Job {
    Header header;
    std::shared_ptr<const void> owner;
    ByteSpan bytes;
  };
  struct Stream {
    Descriptor in, out;
    std::function<std::string()> why_ended;
    Begin begin = Begin::kAtOnce;
    bool begun = true;  // the mutex must be held
    std::thread reader, writer;
  };

  void Enqueue(std::unique_lock<std::mutex> lock, const MessageLabel& label, std::shared_ptr<const void> owner, ByteSpan bytes);
  Status ReadAll(Stream& stream);
  Status ReadOne(Stream& stream, bool& ended);
  Status Ended(const Stream& stream) const;
  Status TakePiece(Stream& stream, const Header& header);
  std::shared_ptr<AlignedBuffer> BeginPiece(const Header& header);
  Status WriteAll(Stream& stream);
  static bool Write(Stream& stream, const Header& header, ByteSpan bytes);
  void SendAgain(const Header& asked);
  void Answer(Type type, const Header& header);
  void Fail(const Status& failure);
  bool EndInOrder(std::chrono::milliseconds patience);
  void Leave(unsigned& threads);

  const std::string peer_;
  const std::function<void(ChannelMessage)> receive_;
  const std::function<void()> failed_;
  mutable std::mutex mutex_;  // for all fields below
  std::condition_variable changed_;
  Status status_;
  std::list<Stream> streams_;
  std::deque<Job> queue_;
  std::uint64_t queued_ = 0;  // bytes in queue_
  unsigned writing_ = 0;      // jobs that are being written
  std::map<std::uint64_t, Outgoing> outgoing_;
  std::map<std::uint64_t, Incoming> incoming_;
  std::uint64_t expected_ = 0;  // bytes of the messages in incoming_
  std::uint64_t last_message_ = 0;
  std::uint64_t sent_again_ = 0, damaged_ = 0;
  bool stopping_ = false;     // the threads shall end
  bool closing_ = false;      // this end has called Close
  bool other_closed_ = false;
  std::size_t ended_ = 0;     // streams, of the other end
  unsigned readers_ = 0, writers_ = 0;  // threads that run
  std::chrono::steady_clock::time_point last_heard_ = std::chrono::steady_clock::now();
};

}  // namespace lzy
