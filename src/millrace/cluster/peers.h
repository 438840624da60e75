#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/rpc/channel.h"
#include "millrace/store/node_table.h"

namespace millrace::cluster {

// Metadata of a call that a node passed on, with that node's id: whoever gets it answers it
// himself.
inline constexpr char kPassedOnBy[] = "millrace-passed-on-by";

// Calls to other nodes.
//
// Thread: any that runs an executor of the node.
class Peers {
 public:
  struct CallId {
    std::uint64_t node = 0;  // 0 = no call.
    std::size_t loop = 0;
    std::uint64_t call = 0;
  };

  virtual ~Peers() = default;

  // `done` runs once, never inside the call, and not before what is running on this thread now has
  // ended.
  virtual CallId Call(const store::NodeRow& node, std::string_view method, std::string request,
                      Instant deadline, UniqueFunction<void(rpc::CallResult)> done) = 0;
  virtual void Cancel(CallId call) = 0;

  // Calls to nodes that are not among these end with CANCELLED.
  virtual void Keep(const std::vector<store::NodeRow>& nodes) = 0;
};

}  // namespace millrace::cluster
