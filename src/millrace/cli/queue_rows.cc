#include "millrace/cli/queue_rows.h"

#include "millrace/cli/methods.h"
#include "millrace/cli/proto_time.h"
#include "millrace/cli/units.h"

namespace millrace::cli {
namespace {

std::string Count(const Json& row, const char* name) {
  return ShowCount(row["counts"][name].get<std::int64_t>());
}

}  // namespace

Json QueueJson(const v1::QueueInfo& queue) {
  const v1::QueueCounts& counts = queue.counts();
  Json json = {{"name", queue.name()},
               {"counts",
                {{"accepted", counts.accepted()},
                 {"done", counts.done()},
                 {"waiting", counts.waiting()},
                 {"leased", counts.leased()},
                 {"dead", counts.dead()},
                 {"dropped", counts.dropped()}}}};
  if (queue.has_oldest_age()) {
    json["oldest_age_seconds"] = static_cast<double>(ToDuration(queue.oldest_age()).count()) / 1e9;
  }
  json["pollers"] = queue.pollers();
  json["loaded"] = queue.loaded();
  if (queue.has_backlog()) {
    const v1::BacklogInfo& backlog = queue.backlog();
    json["backlog"] = {{"range_id", backlog.range_id()},
                       {"ack_level", backlog.ack_level()},
                       {"read_level", backlog.read_level()},
                       {"max_read_level", backlog.max_read_level()},
                       {"loaded_tasks", backlog.loaded_tasks()}};
  }
  return json;
}

const std::vector<Column>& QueueColumns() {
  static const std::vector<Column> kColumns = {
      {"QUEUE", [](const Json& row) { return row["name"].get<std::string>(); }},
      {"WAITING", [](const Json& row) { return Count(row, "waiting"); }, true},
      {"LEASED", [](const Json& row) { return Count(row, "leased"); }, true},
      {"DEAD", [](const Json& row) { return Count(row, "dead"); }, true},
      {"DONE", [](const Json& row) { return Count(row, "done"); }, true},
      {"DROPPED", [](const Json& row) { return Count(row, "dropped"); }, true},
      {"ACCEPTED", [](const Json& row) { return Count(row, "accepted"); }, true},
      {"OLDEST",
       [](const Json& row) {
         if (!row.contains("oldest_age_seconds")) return std::string("-");
         return ShowDuration(
             Duration(static_cast<std::int64_t>(row["oldest_age_seconds"].get<double>() * 1e9)));
       },
       true},
      {"POLLERS", [](const Json& row) { return std::to_string(row["pollers"].get<int>()); }, true},
      {"LOADED",
       [](const Json& row) { return std::string(row["loaded"].get<bool>() ? "yes" : "no"); }}};
  return kColumns;
}

std::optional<CallError> ForEachQueue(ClientSession& session, const std::string& prefix,
                                      UniqueFunction<void(const v1::QueueInfo&)> visit) {
  v1::ListRequest request;
  request.set_page_size(1'000);
  request.set_name_prefix(prefix);
  for (;;) {
    v1::ListResponse response;
    if (auto error = session.Call(methods::kList, request, response)) return error;
    for (const v1::QueueInfo& queue : response.queues()) visit(queue);
    if (response.next_page_token().empty()) return std::nullopt;
    request.set_page_token(response.next_page_token());
  }
}

}  // namespace millrace::cli
