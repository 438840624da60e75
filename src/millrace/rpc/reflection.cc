#include "millrace/rpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"

namespace millrace::rpc {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::DescriptorPool;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::FileDescriptor;
using ::google::protobuf::FileDescriptorProto;
using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;

void SetNotFound(const std::string& what, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(Code::kNotFound));
  response->mutable_error_response()->set_error_message(what + " not found");
}

void AddFile(const FileDescriptor& file, std::set<std::string>* seen,
             ServerReflectionResponse* response) {
  if (!seen->insert(file.name()).second) return;
  FileDescriptorProto proto;
  file.CopyTo(&proto);
  file.CopyJsonNameTo(&proto);  // Some tools take the JSON names from nowhere else.
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(
      proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), seen, response);
}

void SetFile(const FileDescriptor* file, const std::string& what,
             ServerReflectionResponse* response) {
  if (file == nullptr) {
    SetNotFound(what, response);
    return;
  }
  std::set<std::string> seen;
  AddFile(*file, &seen, response);
}

void SetExtension(const ServerReflectionRequest& request, ServerReflectionResponse* response) {
  const auto& wanted = request.file_containing_extension();
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* type = pool.FindMessageTypeByName(wanted.containing_type());
  const FieldDescriptor* field =
      type == nullptr ? nullptr : pool.FindExtensionByNumber(type, wanted.extension_number());
  SetFile(
      field == nullptr ? nullptr : field->file(),
      "extension " + std::to_string(wanted.extension_number()) + " of " + wanted.containing_type(),
      response);
}

void SetExtensionNumbers(const std::string& type_name, ServerReflectionResponse* response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) {
    SetNotFound(type_name, response);
    return;
  }
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  response->mutable_all_extension_numbers_response()->set_base_type_name(type_name);
  for (const FieldDescriptor* extension : extensions) {
    response->mutable_all_extension_numbers_response()->add_extension_number(extension->number());
  }
}

using Services = std::shared_ptr<const std::vector<std::string>>;

// Reads a question, writes its answer, and so on until the client has no more.
void Converse(std::unique_ptr<ServerStream> stream, Services services) {
  ServerStream& current = *stream;
  current.Read([stream = std::move(stream),
                services = std::move(services)](std::optional<std::string> message) mutable {
    if (!message) {
      stream->Finish({});
      return;
    }
    std::string answer = AnswerReflection(*services, *message);
    if (answer.empty()) {
      stream->Finish({Code::kInvalidArgument, "request is not a valid message", {}});
      return;
    }
    ServerStream& writing = *stream;
    writing.Write(std::move(answer),
                  [stream = std::move(stream), services = std::move(services)](bool more) mutable {
                    if (more) {
                      Converse(std::move(stream), std::move(services));
                    } else {
                      stream->Finish({Code::kCancelled, {}, {}});
                    }
                  });
  });
}

}  // namespace

std::string AnswerReflection(const std::vector<std::string>& services, const std::string& request) {
  ServerReflectionRequest question;
  if (!question.ParseFromString(request)) return {};
  ServerReflectionResponse response;
  response.set_valid_host(question.host());
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (question.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(question.file_by_filename()), question.file_by_filename(),
              &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(question.file_containing_symbol()),
              question.file_containing_symbol(), &response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      SetExtension(question, &response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensionNumbers(question.all_extension_numbers_of_type(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(static_cast<int>(Code::kInvalidArgument));
      response.mutable_error_response()->set_error_message("empty request");
      break;
  }
  *response.mutable_original_request() = std::move(question);
  return response.SerializeAsString();
}

void AddReflection(std::vector<std::string> services, ServiceTable* table) {
  // Both versions have the same messages on the wire. Asking for this one's descriptor keeps its
  // file linked in.
  ::grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
  const Services shared = std::make_shared<const std::vector<std::string>>(std::move(services));
  for (const char* version : {"v1", "v1alpha"}) {
    table->streaming["/grpc.reflection." + std::string(version) +
                     ".ServerReflection/ServerReflectionInfo"] =
        [shared](std::unique_ptr<ServerStream> stream) { Converse(std::move(stream), shared); };
  }
}

}  // namespace millrace::rpc
