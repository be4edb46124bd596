#pragma once
// Two processes on two machines as the two ranks of a Communicator, without MPI (docs/design/repair.md §9, "Copies between
// machines").
//
// tools/copy uses it for lzy-copy: rank 0 is the process that the user started, rank 1 is the other end of its channel.
// Everything that works on two ranks then works on two machines.

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "link/channel.h"

namespace lzy {

/// Makes the pieces of a link known to each other: the channel calls the hub, and communicators use both.
class LinkHub;

/// One end of a link. Make it, add streams to channel(), then use communicator().
class Link {
 public:
  struct Ends {
    int rank = 0;            ///< of this process
    std::string here;        ///< ProcessorName() of this rank
    std::string peer;        ///< the name of the other end, for messages
    std::string host;        ///< the name of rank 1, as the user gave it
    /// The number of a signal that shall stop the work, or 0. Asked while this rank waits. The other rank then gets it by
    /// `stop`. May be empty.
    std::function<int()> signal = {};
    std::function<void(int signal)> stop = {};
  };
  explicit Link(Ends ends);
  /// Closes the channel. The communicators of the link must not be used any more.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Channel& channel();
  Communicator& communicator() { return *communicator_; }
  /// Ends the channel in order: see Channel::Close.
  void Close();

 private:
  const std::shared_ptr<LinkHub> hub_;
  const std::unique_ptr<Communicator> communicator_;
};

}  // namespace lzy
