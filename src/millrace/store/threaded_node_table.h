#pragma once

#include <string>

#include "millrace/store/node_table.h"
#include "millrace/store/read_threads.h"

namespace millrace::store {

// An AsyncNodeTable over a blocking one, with a thread of its own: a heartbeat waits for no read or
// write of tasks.
//
// Thread: any. `table` and the strands outlive it; destruction waits for what was asked.
class ThreadedNodeTable final : public AsyncNodeTable {
 public:
  explicit ThreadedNodeTable(NodeTable& table) : table_(table), thread_(1) {}

  void Beat(NodeBeat beat, bool first, exec::Strand& strand,
            UniqueFunction<void(Result<NodeRows>)> done) override {
    thread_.Run([this, beat = std::move(beat), first, &strand, done = std::move(done)]() mutable {
      strand.Post([rows = table_.Beat(beat, first), done = std::move(done)]() mutable {
        done(std::move(rows));
      });
    });
  }

  void Remove(std::string id, std::uint64_t incarnation, exec::Strand& strand,
              UniqueFunction<void(Status)> done) override {
    thread_.Run([this, id = std::move(id), incarnation, &strand, done = std::move(done)]() mutable {
      strand.Post([status = table_.Remove(id, incarnation), done = std::move(done)]() mutable {
        done(std::move(status));
      });
    });
  }

 private:
  NodeTable& table_;
  ReadThreads thread_;
};

}  // namespace millrace::store
