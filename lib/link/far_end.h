#pragma once
// Starts the other end of a tool that works on two machines, and is that other end.
//
// tools/copy calls it for lzy-copy. The user's process (NearEnd) starts ssh, which starts the same tool on the host. That process
// (FarEnd) works over its standard input and output. Further streams are further ssh processes, whose other ends hand their
// standard input and output over to the first one.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "link/handshake.h"
#include "link/link_communicator.h"
#include "link/process.h"

namespace lzy {

/// The end that the user started: rank 0.
class NearEnd {
 public:
  struct Request {
    std::string host;                       ///< for messages
    std::vector<std::string> command;       ///< starts the other end: {"ssh", "host", "lzy-copy --serve"}
    std::vector<std::string> more_command;  ///< the same for further streams
    std::string tool;                       ///< the name of the program at the other end
    std::uint32_t messages = 0;             ///< Hello::messages
    std::string version;
    Assignment assignment;
    std::function<int()> signal = {};       ///< Link::Ends::signal
  };
  /// Starts the other end, with one stream. kInvalidArgument: the command does not exist here. kIo: everything else; the message
  /// says what to do.
  static Result<std::unique_ptr<NearEnd>> Start(Request request);
  /// Closes the link, and ends what was started.
  ~NearEnd();
  NearEnd(const NearEnd&) = delete;
  NearEnd& operator=(const NearEnd&) = delete;

  Communicator& communicator() { return link_->communicator(); }
  Channel& channel() { return link_->channel(); }
  Status status() const { return link_->channel().status(); }
  /// What the other end said of itself.
  const Hello& other() const { return other_; }
  /// Starts `count` further streams, in the background. If the first of them cannot be started, the others are not tried. Missing
  /// ones: see Channel::streams. Call it at most once.
  void AddStreams(unsigned count);

 private:
  explicit NearEnd(Request request) : request_(std::move(request)) {}
  Result<Hello> Greet(ChildProcess& child, const Assignment& assignment);
  Status NoAnswer(ChildProcess& child, const Status& failure) const;
  bool AddStream();
  void Watch();

  const Request request_;
  Hello other_;
  std::list<std::unique_ptr<ChildProcess>> children_;
  std::mutex mutex_;  // for children_
  std::condition_variable changed_;
  bool ending_ = false;
  std::unique_ptr<Link> link_;
  std::thread starting_, watching_;
};

/// The other end: rank 1.
class FarEnd {
 public:
  /// Takes over standard input and output: whatever is printed goes to standard error from now on. `stop` is called with the
  /// number of a signal that shall stop the work. Returns nullptr if this process was only to hand over its streams, and
  /// has done so. kIo: the end that the user started is not there, or has another version, or takes no more streams. Without a message
  /// if it knows that itself.
  static Result<std::unique_ptr<FarEnd>> Serve(std::uint32_t messages, const std::string& version, std::function<void(int)> stop);
  ~FarEnd();
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;

  Communicator& communicator() { return link_->communicator(); }
  const Assignment& assignment() const { return assignment_; }

 private:
  FarEnd() = default;
  void Accept();

  Assignment assignment_;
  Descriptor socket_, ending_;
  std::list<Descriptor> joined_;  // sockets of processes that handed over their streams; they end with them
  std::unique_ptr<Link> link_;
  std::thread accepting_;
};

}  // namespace lzy
