#pragma once

#include "millrace/backlog/testing/conservation.h"

namespace millrace::backlog::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Absurdly small limits, so that every path is taken by a few tasks.
inline BacklogConfig Tiny(bool delete_on_finish) {
  BacklogConfig config;
  config.range_size = 7;
  config.write_batch_max = 3;
  config.page_size = 4;
  config.gc_batch = 2;
  config.delete_on_finish = delete_on_finish;
  return config;
}

// Fill, take half, load again, drain.
inline void FillAndDrain(Driver& driver) {
  driver.Spool({"a", "b", "c", "d", "e"});
  driver.Advance(milliseconds(100));
  driver.Spool({"f"});
  driver.Take(3);
  driver.FinishSome(2);
  driver.Advance(milliseconds(100));
  driver.Spool({"g", "h", "i", "j"});
  driver.Advance(seconds(3));
  driver.Reload();
  driver.Take(2);
  driver.FinishSome(2);
  driver.Drain();
}

// Tasks that expire, are written again, and are given back.
inline void ExpireRewriteAndPutBack(Driver& driver) {
  driver.Spool({"x1", "x2", "x3", "x4", "x5"}, seconds(2));
  driver.Spool({"a", "b", "c"});
  driver.Advance(milliseconds(100));
  driver.Take(2);
  driver.RewriteOne();
  driver.Advance(milliseconds(200));
  driver.PutBackOne();
  driver.Spool({"d", "e"});
  driver.Advance(seconds(3));
  driver.Take(3);
  driver.RewriteOne();
  driver.Drain();
}

// A second owner takes the queue in the middle of writes of the first.
inline void LoseTheQueue(Driver& driver) {
  driver.Spool({"a", "b", "c", "d"});
  driver.Take(2);
  driver.FinishSome(1);
  driver.Spool({"e", "f"});
  driver.Steal();
  driver.Spool({"g", "h"});
  driver.Advance(seconds(5));
  driver.BuryOld();
  driver.Drain();
}

// An update interval passes with changes, and one without.
inline void LiveLong(Driver& driver) {
  driver.Spool({"a", "b"});
  driver.Take(1);
  driver.FinishSome(1);
  driver.Advance(seconds(70));
  driver.Advance(seconds(130));
  driver.Spool({"c"});
  driver.Drain();
  driver.Advance(seconds(130));
}

}  // namespace millrace::backlog::testing
