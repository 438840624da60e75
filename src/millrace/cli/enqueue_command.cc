#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/cli/app.h"
#include "millrace/cli/client_session.h"
#include "millrace/cli/enqueuer.h"
#include "millrace/cli/output.h"
#include "millrace/cli/progress.h"
#include "millrace/cli/proto_time.h"
#include "millrace/cli/record_reader.h"
#include "millrace/cli/stop_signals.h"
#include "millrace/cli/units.h"

namespace millrace::cli {
namespace {

// A batch ends here even when it could hold more records: servers bound the size of a request.
constexpr std::size_t kBatchBytesMax = 2u << 20;
constexpr std::size_t kRecordBytesMax = 64u << 20;
constexpr Duration kProgressEvery = std::chrono::milliseconds(200);

struct EnqueueArguments {
  std::string queue;
  std::vector<std::string> payloads;
  std::string file;
  std::string format = "lines";
  int batch = 64;
  int parallel = 1;
  std::vector<std::string> headers;
  int max_attempts = 0;
  Duration ttl = Duration::zero();
  bool no_retry = false;
  Duration retry_for = std::chrono::minutes(5);
};

// Where records come from: the arguments, a file or standard input.
class RecordSource {
 public:
  Status Open(Context& context, const EnqueueArguments& arguments) {
    if (arguments.file.empty()) {
      payloads_ = &arguments.payloads;
      return OkStatus();
    }
    std::istream* input = &context.in;
    if (arguments.file != "-") {
      struct stat info{};
      file_.open(arguments.file, std::ios::binary);
      if (!file_ || stat(arguments.file.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) {
        return {StatusCode::kNotFound, "cannot read the file \"" + arguments.file + "\""};
      }
      if (S_ISREG(info.st_mode)) bytes_total_ = static_cast<std::uint64_t>(info.st_size);
      input = &file_;
    }
    static const std::map<std::string, RecordFormat> kFormats = {{"lines", RecordFormat::kLines},
                                                                 {"rfc822", RecordFormat::kRfc822},
                                                                 {"jsonl", RecordFormat::kJsonl}};
    reader_ =
        std::make_unique<RecordReader>(*input, kFormats.at(arguments.format), kRecordBytesMax);
    return OkStatus();
  }

  Result<bool> Next(std::string& record) {
    if (reader_) return reader_->Next(record);
    if (next_ == payloads_->size()) return false;
    record = (*payloads_)[next_++];
    return true;
  }

  [[nodiscard]] std::optional<double> fraction() const {
    if (!reader_ || bytes_total_ == 0) return std::nullopt;
    return static_cast<double>(reader_->bytes_read()) / static_cast<double>(bytes_total_);
  }

 private:
  const std::vector<std::string>* payloads_ = nullptr;
  std::size_t next_ = 0;
  std::ifstream file_;
  std::uint64_t bytes_total_ = 0;
  std::unique_ptr<RecordReader> reader_;
};

// One run of the command.
class EnqueueRun {
 public:
  EnqueueRun(Context& context, const EnqueueArguments& arguments)
      : context_(context),
        arguments_(arguments),
        session_(context),
        enqueuer_(session_.loop(), session_.channel(), random_, OptionsOf(context, arguments)),
        progress_(context.err, context.err_is_terminal && !arguments.file.empty()),
        begun_(session_.clock().Now()) {}

  ExitCode Run() {
    if (Status status = ReadHeaders(); !status.ok()) {
      return context_.Fail(kExitUsage, std::string(status.message()), "write --header name=value");
    }
    RecordSource source;
    if (Status status = source.Open(context_, arguments_); !status.ok()) {
      return context_.Fail(kExitFailed, std::string(status.message()));
    }
    signals_.Attach(session_.loop(), [this] {
      if (stopped_.exchange(true)) _exit(kExitFailed);  // Perhaps the input never ends.
      enqueuer_.Abandon();
    });
    const Status read = SendAll(source);
    while (!enqueuer_.Finish(session_.clock().Now() + kProgressEvery)) ShowProgress(source);
    PrintIds();
    signals_.Detach();
    progress_.Clear();
    return Report(read);
  }

 private:
  static Enqueuer::Options OptionsOf(const Context& context, const EnqueueArguments& arguments) {
    Enqueuer::Options options;
    options.parallel = arguments.parallel;
    options.retry = !arguments.no_retry;
    options.keep_ids = context.output != OutputFormat::kTable || arguments.file.empty();
    options.call_timeout = context.timeout;
    options.first_retry_for = context.timeout;
    options.retry_for = arguments.retry_for;
    return options;
  }

  Status ReadHeaders() {
    for (const std::string& header : arguments_.headers) {
      const std::size_t equals = header.find('=');
      if (equals == std::string::npos || equals == 0) {
        return {StatusCode::kInvalidArgument, "\"" + header + "\" is not a header"};
      }
      (*template_.mutable_headers())[header.substr(0, equals)] = header.substr(equals + 1);
    }
    template_.set_max_attempts(arguments_.max_attempts);
    if (arguments_.ttl > Duration::zero())
      SetDuration(*template_.mutable_time_to_live(), arguments_.ttl);
    return OkStatus();
  }

  // Until the source ends or the run does. The status is the source's.
  Status SendAll(RecordSource& source) {
    std::string record;
    v1::EnqueueRequest request;
    std::size_t bytes = 0;
    for (;;) {
      const Result<bool> more = source.Next(record);
      const bool has_record = more.ok() && *more;
      const bool full =
          request.tasks_size() >= arguments_.batch || bytes + record.size() > kBatchBytesMax;
      if (request.tasks_size() > 0 && (!has_record || full)) {
        request.set_queue(arguments_.queue);
        while (!enqueuer_.WaitForRoom(session_.clock().Now() + kProgressEvery))
          ShowProgress(source);
        ShowProgress(source);
        if (!enqueuer_.Submit(std::move(request))) return OkStatus();
        request = v1::EnqueueRequest();
        bytes = 0;
        PrintIds();
      }
      if (!more.ok()) return more.status();
      if (!has_record) return OkStatus();
      v1::NewTask& task = *request.add_tasks();
      task = template_;
      task.set_payload(record);
      bytes += record.size();
    }
  }

  void PrintIds() {
    for (std::string& id : enqueuer_.TakeIds()) {
      if (context_.output == OutputFormat::kJsonl) {
        context_.out << JsonText({{"task_id", id}}, false) << "\n";
      } else {
        ids_.push_back(std::move(id));
      }
    }
  }

  void ShowProgress(const RecordSource& source) {
    if (!progress_.enabled()) return;
    const Instant now = session_.clock().Now();
    if (now < progress_next_) return;
    progress_next_ = now + kProgressEvery;
    const EnqueueTotals totals = enqueuer_.totals();
    progress_.Show({.items = totals.stored,
                    .elapsed = now - begun_,
                    .fraction = source.fraction(),
                    .note = totals.waiting ? "waiting for the server" : ""});
  }

  ExitCode Report(const Status& read) {
    const EnqueueTotals totals = enqueuer_.totals();
    const std::optional<CallError> error = enqueuer_.error();
    const Duration elapsed = session_.clock().Now() - begun_;
    PrintTotals(totals, elapsed);
    if (totals.uncertain_batches > 0) {
      context_.err
          << "note: " << totals.uncertain_batches
          << " batches were sent again after an answer was lost; their tasks may be stored twice\n";
    }
    for (const RefusedRecord& refused : totals.first_refused) {
      context_.err << "error: record " << refused.record << " was refused: " << refused.message
                   << (refused.reason.empty() ? "" : " (" + refused.reason + ")") << "\n";
    }
    if (totals.refused > static_cast<std::int64_t>(totals.first_refused.size())) {
      context_.err << "error: " << totals.refused << " records were refused in all\n";
    }
    if (error) {
      PrintCallError(context_.err, "enqueue", *error, context_.address);
      return error->exit_code();
    }
    if (!read.ok()) {
      return context_.Fail(kExitFailed, "the input ends early: " + std::string(read.message()),
                           "the records before it are stored");
    }
    if (stopped_) {
      return context_.Fail(kExitFailed, "interrupted after " + ShowCount(totals.stored) + " tasks");
    }
    return totals.refused == 0 ? kExitOk : kExitFailed;
  }

  void PrintTotals(const EnqueueTotals& totals, Duration elapsed) {
    const double seconds = static_cast<double>(elapsed.count()) / 1e9;
    if (context_.output == OutputFormat::kTable) {
      for (const std::string& id : ids_) context_.out << id << "\n";
      std::ostream& to = arguments_.file.empty() ? context_.err : context_.out;
      to << "stored " << ShowCount(totals.stored) << " tasks in queue \"" << arguments_.queue
         << "\" in " << ShowDuration(elapsed);
      if (seconds > 0.2)
        to << " (" << ShowRate(static_cast<double>(totals.stored) / seconds) << "/s)";
      to << "\n";
      return;
    }
    if (context_.output == OutputFormat::kJsonl) return;
    Json refused = Json::array();
    for (const RefusedRecord& record : totals.first_refused) {
      refused.push_back(
          {{"record", record.record}, {"reason", record.reason}, {"message", record.message}});
    }
    PrintObject(context_.out, OutputFormat::kJson,
                {{"queue", arguments_.queue},
                 {"stored", totals.stored},
                 {"refused", totals.refused},
                 {"uncertain_batches", totals.uncertain_batches},
                 {"seconds", seconds},
                 {"first_refused", refused},
                 {"task_ids", ids_}});
  }

  Context& context_;
  const EnqueueArguments& arguments_;
  StopSignals signals_;
  SystemRandom random_;
  ClientSession session_;
  Enqueuer enqueuer_;
  ProgressLine progress_;
  const Instant begun_;
  Instant progress_next_{0};
  v1::NewTask template_;
  std::vector<std::string> ids_;
  std::atomic<bool> stopped_{false};
};

}  // namespace

void AddEnqueueCommand(Command& task, Context& context) {
  auto arguments = std::make_shared<EnqueueArguments>();
  Command enqueue = task.Subcommand(
      "enqueue",
      "store tasks, durably: from arguments, a file or standard input\n"
      "Prints the new task ids for arguments, totals for files; -o json prints both.\n"
      "While the server is away, batches are tried again with growing waits. A try whose answer "
      "was lost may\n"
      "have been stored all the same, and then the retry stores its tasks a second time; the count "
      "of such\n"
      "batches is printed.");
  enqueue.Queue(arguments->queue);
  CommandOption payloads =
      enqueue.Texts("PAYLOAD", arguments->payloads, "", "one task each, any bytes");
  enqueue
      .Text("-f,--from-file", arguments->file, "FILE",
            "read records from this file; - is standard input")
      .Excludes(payloads);
  enqueue
      .Text("--format", arguments->format, "FORMAT",
            "what a record of the file is: lines = a line; rfc822 = a paragraph, divided by blank "
            "lines, as in "
            "package indexes; jsonl = a line of JSON, checked")
      .OneOf({"lines", "rfc822", "jsonl"});
  enqueue.Number("--batch", arguments->batch, 1, 1'000, "tasks in one call");
  enqueue.Number("--parallel", arguments->parallel, 1, 256,
                 "calls at a time; more than 1 does not keep the order");
  enqueue.Texts("--header", arguments->headers, "NAME=VALUE", "for each task; may be repeated");
  enqueue.Number("--max-attempts", arguments->max_attempts, 0, 1'000'000,
                 "attempts, the first included; 0 = as the server says");
  enqueue.Time("--ttl", arguments->ttl, "drop tasks that nobody took within this time; 0 = never");
  enqueue.Flag("--no-retry", arguments->no_retry,
               "fail at the first error instead of trying again");
  enqueue.Time("--retry-for", arguments->retry_for,
               "how long a batch is tried once some tasks are stored (before that: --timeout)");
  enqueue.Examples(
      "  millrace task enqueue mail 'to=ann' 'to=bob' --header kind=welcome\n"
      "  millrace task enqueue jobs --from-file jobs.jsonl --format jsonl --batch 256\n"
      "  apt-cache dumpavail | millrace task enqueue packages --from-file - --format rfc822");
  enqueue.Runs(context, [&context, arguments] {
    if (arguments->payloads.empty() && arguments->file.empty()) {
      return context.Fail(kExitUsage, "nothing to enqueue",
                          "give payloads as arguments, or --from-file FILE (or -)");
    }
    return EnqueueRun(context, *arguments).Run();
  });
}

}  // namespace millrace::cli
