#pragma once

#include <string_view>

// Full paths of the calls the command line makes.
namespace millrace::cli::methods {

inline constexpr std::string_view kEnqueue = "/millrace.v1.QueueService/Enqueue";
inline constexpr std::string_view kLease = "/millrace.v1.QueueService/Lease";
inline constexpr std::string_view kComplete = "/millrace.v1.QueueService/Complete";
inline constexpr std::string_view kFail = "/millrace.v1.QueueService/Fail";
inline constexpr std::string_view kExtend = "/millrace.v1.QueueService/Extend";
inline constexpr std::string_view kRelease = "/millrace.v1.QueueService/Release";
inline constexpr std::string_view kPeek = "/millrace.v1.QueueService/Peek";
inline constexpr std::string_view kDescribe = "/millrace.v1.QueueService/Describe";
inline constexpr std::string_view kList = "/millrace.v1.QueueService/List";
inline constexpr std::string_view kListNodes = "/millrace.v1.NodeService/List";
inline constexpr std::string_view kHealthCheck = "/grpc.health.v1.Health/Check";

}  // namespace millrace::cli::methods
